"""Building MDMR-Bench: from a gallery of pictures to cases with references, instructions and checklists."""
