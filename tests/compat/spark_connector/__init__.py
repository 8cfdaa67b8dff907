"""Spark's Kafka connector: its own test suites on our broker, and our source beside it in one session."""
