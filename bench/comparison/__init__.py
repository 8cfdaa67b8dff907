"""Highwater's broker beside Apache Kafka on one machine: `python -m bench.comparison` (docs/bench-broker.md)."""
