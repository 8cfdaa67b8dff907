"""Frameworks that people write Kafka applications with, on our broker: Streams, Connect, Spring Kafka, Flink."""
