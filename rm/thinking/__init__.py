"""A judge that thinks before it answers: a cold start on rationales, then GRPO on rewards that need no reward model."""
