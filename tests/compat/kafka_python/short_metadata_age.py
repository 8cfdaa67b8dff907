"""A pytest plugin: kafka-python's consumers ask for metadata every second and not every five minutes.

A topic that is subscribed to while the answer to the client's first Metadata request is under way is forgotten (3.0.12:
that answer counts as the refresh that `subscribe` had asked for), until the next refresh, which the tests do not await.
"""

from kafka import KafkaConsumer

KafkaConsumer.DEFAULT_CONFIG["metadata_max_age_ms"] = 1000
