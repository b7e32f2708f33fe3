"""What a judge asks a vision-language model, and how the replies are read."""
