"""What the measuring itself can do: how fast the load generator is with nothing behind it, how quiet the host is."""
