"""Settings: Kafka's property names and values, and those that change while the broker runs."""
