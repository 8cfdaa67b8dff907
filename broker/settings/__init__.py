"""Settings: Kafka's property names and values, and where they are stored."""
