"""Topics: what may be done to them, and which of their partitions are here."""
