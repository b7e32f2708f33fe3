"""Benchmarks: generate, judge, summarize, compare and report."""

PROJECT = "gnomon"  # lets the command line tell this package from an unrelated one of the same name
