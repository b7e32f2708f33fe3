"""New cases for Edit-Compass: instructions for photographs, sources for scenarios, and what reviewers make of both."""
