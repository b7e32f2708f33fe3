"""Our own rubrics for the dimensions of MDMR-Bench as wholes, in English and Chinese, and the form that asks them."""
