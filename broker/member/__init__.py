"""A broker as a member of a cluster: its session, its replicas, settings, requests to other brokers."""
