"""Kafka's wire protocol, sans-IO: bytes in, values out. Nothing here knows sockets, files or time."""
