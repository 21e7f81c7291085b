"""What is known of overrides beside their values: why they are there, by whom, until when; and as a file."""
