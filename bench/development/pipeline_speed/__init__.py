"""Topics through Spark by Highwater's source, beside Spark's Kafka connector: `make bench-pipeline`."""
