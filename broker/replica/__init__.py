"""The replicas of partitions: roles, replication, fetch sessions. No loop, no socket, no clock."""
