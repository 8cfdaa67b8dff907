"""Pages of the broker's counters for Prometheus. Sans-IO; broker/server serves them."""
