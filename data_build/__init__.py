"""Builders of cases and comparisons: the tabletop world, pairs from edits, preference sampling, the demo."""

PROJECT = "gnomon"  # lets the command line tell this package from an unrelated one of the same name
