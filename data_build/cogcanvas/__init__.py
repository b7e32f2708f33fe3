"""Building CogCanvas: from a manifest of references to scenes with prompts, graphs and questions."""
