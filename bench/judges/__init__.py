"""Judges side by side: one table over several evaluations of `gnomon rm eval` on the same pairs."""
