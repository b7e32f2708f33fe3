"""Our own rubric texts: one file per metric, and one per form of question, in English and Chinese, versioned."""
