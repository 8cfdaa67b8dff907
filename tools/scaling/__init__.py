"""How throughput grows with the processes of a broker, on a host that has fewer cores than processes."""
