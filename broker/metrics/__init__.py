"""What the broker counts while it works, and how Prometheus reads it. Sans-IO; broker/server serves it."""
