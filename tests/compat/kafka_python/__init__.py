"""kafka-python: its integration tests, and ours that use it."""
