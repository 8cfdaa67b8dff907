"""ZooKeeper's part for the processes of one host: a durable tree of znodes and its protocol."""
