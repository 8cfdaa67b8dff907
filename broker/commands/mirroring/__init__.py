"""The parts of `highwater broker mirror`: topics, records exactly once, offsets of groups."""
