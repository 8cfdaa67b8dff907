"""The broker's counters and their pages for Prometheus. Sans-IO; broker/server serves them."""
