"""Evaluators: Lightning modules that look at the candidates of a run, on any number of ranks."""
