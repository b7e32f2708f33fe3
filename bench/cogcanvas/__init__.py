"""CogCanvas: scenes of two to five given people with given objects before a given place, checked axis by axis."""
