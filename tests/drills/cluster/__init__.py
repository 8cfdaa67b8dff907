"""Break a cluster of three brokers under load, and hold it to its promises: `python -m tests.drills.cluster --help`."""
