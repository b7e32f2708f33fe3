"""Faces in pictures: where they are, how they are straightened, what of them counts, and whose they are."""
