"""Public preference sets, one module each, read into comparison folders: `gnomon data import NAME`."""
