"""What evaluators see with: detectors, segmenters and embedders of pictures, each behind one small interface."""
