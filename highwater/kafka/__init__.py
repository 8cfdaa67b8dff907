"""Kafka's protocol, record batches, logins and clients, for every room."""
