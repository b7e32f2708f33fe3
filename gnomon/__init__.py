"""Gnomon: train open judges of image edits, steer image generators with them by RL, and measure both.

This package is the shared ground: records, dataset folders, images, run folders, statistics, tracking and the
command line. It imports nothing of the other packages and no torch.
"""

__version__ = "0.1.0"
