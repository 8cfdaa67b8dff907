"""What a broker host is, what it should be, and why."""
