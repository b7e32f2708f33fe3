"""How to ask a vision-language model."""
