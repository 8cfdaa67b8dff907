"""Reads a cluster from its brokers by Kafka's protocol, as a Snapshot in each tick."""
