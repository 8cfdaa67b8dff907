"""A broker as a member of a cluster: its session, metadata, settings, requests to other brokers."""
