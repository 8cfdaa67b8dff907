"""The parts of `highwater broker mirror`: topics, exactly-once copying, offsets of groups."""
