"""What a broker knows of its cluster, and how it reaches other brokers and ZooKeeper."""
