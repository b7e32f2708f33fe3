"""Our own texts of the questions to a judge, in English and Chinese: a skeleton, and one file per metric."""
