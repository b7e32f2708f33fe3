"""Studies over finished runs: people and judges, other judges, repeats, references. `gnomon bench study NAME`."""
