"""Kafka's side of the pipeline: a blocking client, and records as columns."""
