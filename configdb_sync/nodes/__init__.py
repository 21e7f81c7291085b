"""Ways to reach nodes. Knows nothing of ConfigDB or of what is written in the files."""
