"""What the cluster knows: topics, their configuration, ids; one interface and its implementations."""
