"""The tabletop world: drawn scenes of shapes, bilingual edit instructions and an oracle that knows the outcome."""
