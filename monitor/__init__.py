"""The monitor: what a cluster does, what it did, and how much it has left."""
