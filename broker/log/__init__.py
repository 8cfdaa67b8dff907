"""Kafka's partition logs on disk, byte for byte: segments, indexes, checkpoints, recovery."""
