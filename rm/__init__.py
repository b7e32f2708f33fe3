"""Judges and reward models of image edits: ask a vision-language model, train, evaluate and serve."""

PROJECT = "gnomon"  # lets the command line tell this package from an unrelated one of the same name
