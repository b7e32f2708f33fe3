"""How far raters agree, what most of them say, and how pairwise outcomes rank systems. Pure functions, no files.

- :mod:`bench.statistics.ratings`: the ratings themselves and the result type;
- :mod:`bench.statistics.reliability`: agreement ratio, Cohen's and Fleiss' kappa, Krippendorff's alpha;
- :mod:`bench.statistics.correlations`: Pearson, Spearman, Kendall's tau-b;
- :mod:`bench.statistics.majority`: majority votes with abstentions;
- :mod:`bench.statistics.ranking`: Bradley-Terry strengths.

Intervals are those of the cluster bootstrap in :mod:`gnomon.statistics`: whole items are drawn with replacement, or
whole groups of items where the caller names groups. Input that leaves a statistic undefined gives a result without a
value and with a reason in words.
"""
