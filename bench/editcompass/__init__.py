"""Edit-Compass: edits of pictures in 36 tasks of six categories, judged in five metrics."""
