"""`highwater pipeline drill`: kills the parts of a pipeline, and shows that each record arrived once."""
