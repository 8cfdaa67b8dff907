"""Kafka's record batches as bytes and values: no files, no sockets, no clock."""
