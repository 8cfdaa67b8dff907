"""The broker beside Apache Kafka on one machine: `python -m highwater.bench.comparison` (docs/bench-broker.md)."""
