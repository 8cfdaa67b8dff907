"""`highwater pipeline drill`: kills parts of a pipeline, and shows that each record arrived once."""
