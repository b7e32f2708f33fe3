"""Preferences between a generator's own candidates: sampled, filtered, paired, annotated in two stages, merged."""
