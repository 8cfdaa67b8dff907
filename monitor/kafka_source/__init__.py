"""A cluster as its brokers tell it by Kafka's protocol, as a Snapshot in each tick."""
