"""How far the raters of each group agree: what `gnomon bench agreement` writes and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.report.formatting import NOTHING, number
from bench.statistics.correlations import kendall_tau_b, pearson, spearman
from bench.statistics.ratings import Agreement, Bootstrap, Ratings
from bench.statistics.reliability import agreement_ratio, cohen_kappa, fleiss_kappa, krippendorff_alpha
from bench.text import aligned
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain


@dataclass(frozen=True)
class GroupAgreement:
    """The agreement of one group of ratings.

    Attributes:
        ratings: the ratings.
        bootstrap: how intervals were resampled.
        statistics: by name; correlations only for numbers of two raters.
        n_rater_pairs: pairs of raters that share an item.
        n_undefined_pairs: pairs of these without a Cohen's kappa.
    """

    ratings: Ratings
    bootstrap: Bootstrap
    statistics: dict[str, Agreement]
    n_rater_pairs: int
    n_undefined_pairs: int

    @property
    def counts(self) -> dict[str, int]:
        """Items, raters, ratings and empty places of the table of items and raters."""
        n_items, n_raters, n_values = len(self.ratings.items), len(self.ratings.raters), len(self.ratings.item)
        return {
            "n_items": n_items,
            "n_raters": n_raters,
            "n_values": n_values,
            "n_missing": n_items * n_raters - n_values,
        }

    def to_json(self) -> dict[str, object]:
        """Return it flat: `alpha`, `alpha_ci_low`, `alpha_ci_high`, `alpha_n_items`, and so on for each statistic."""
        flat: dict[str, object] = {
            **self.counts,
            "n_rater_pairs": self.n_rater_pairs,
            "n_undefined_pairs": self.n_undefined_pairs,
            "level": self.ratings.level,
            "kappa_is": headline_kappa(self.ratings),
        }
        for name, statistic in self.statistics.items():
            flat |= {
                name: statistic.value,
                f"{name}_ci_low": statistic.ci_low,
                f"{name}_ci_high": statistic.ci_high,
                f"{name}_n_items": statistic.n_items,
            }
        reasons = {name: statistic.reason for name, statistic in self.statistics.items() if statistic.reason}
        return flat | {
            "reasons": reasons,
            "confidence": self.bootstrap.confidence,
            "num_resamples": self.bootstrap.num_resamples,
            "seed": self.bootstrap.seed,
        }


def headline_kappa(ratings: Ratings) -> str:
    """Return which kappa stands for all: Cohen's for up to two raters, Fleiss' for more."""
    return "cohen_kappa" if len(ratings.raters) <= 2 else "fleiss_kappa"


def group_agreement(ratings: Ratings, bootstrap: Bootstrap) -> GroupAgreement:
    """Return all statistics of one group of ratings."""
    ratio, cohen = agreement_ratio(ratings, bootstrap), cohen_kappa(ratings, bootstrap)
    kappas = {"cohen_kappa": cohen.agreement, "fleiss_kappa": fleiss_kappa(ratings, bootstrap)}
    statistics = {
        "agreement": ratio.agreement,
        "kappa": kappas[headline_kappa(ratings)],
        "alpha": krippendorff_alpha(ratings, bootstrap),
        **kappas,
    }
    if len(ratings.raters) == 2 and ratings.level != "nominal":
        for name, correlation in (("pearson", pearson), ("spearman", spearman), ("kendall_tau_b", kendall_tau_b)):
            statistics[name] = correlation(*ratings.paired(), bootstrap)
    return GroupAgreement(ratings, bootstrap, statistics, cohen.n_pairs, cohen.n_undefined)


def write_agreement(path: Path, groups: Mapping[str, GroupAgreement]) -> None:
    """Write the groups as one JSON object, by name.

    Raises:
        UserError: when the system refuses.
    """
    plain = to_plain({name: group.to_json() for name, group in groups.items()})
    atomic_write_text(path, json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def agreement_text(groups: Mapping[str, GroupAgreement]) -> str:
    """Return a table of what was rated, a table of the statistics, and why a value is missing."""
    counts = [("group", "items", "raters", "ratings", "missing", "pairs of raters", "kappa is")]
    rows = [("group", "statistic", "value", "95 % interval", "items")]
    notes = []
    for name, group in groups.items():
        numbers = [str(count) for count in group.counts.values()]
        pairs = f"{group.n_rater_pairs}, {group.n_undefined_pairs} without cohen_kappa"
        counts.append((name, numbers[0], numbers[1], numbers[2], numbers[3], pairs, headline_kappa(group.ratings)))
        for key, statistic in group.statistics.items():
            rows.append((name, key, *_cells(statistic), str(statistic.n_items)))
            if statistic.reason and key != "kappa":  # the kappa that it is gives the same reason
                notes.append(f"{name}, {key}: {statistic.reason}")
    return "\n".join([aligned(counts), "", aligned(rows), *notes])


def _cells(statistic: Agreement) -> tuple[str, str]:
    value = NOTHING if statistic.value is None else number(statistic.value)
    if statistic.ci_low is None or statistic.ci_high is None:
        return value, NOTHING
    return value, f"{number(statistic.ci_low)} to {number(statistic.ci_high)}"
