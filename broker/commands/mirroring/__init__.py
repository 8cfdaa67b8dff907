"""What `highwater broker mirror` consists of: topics made alike, records copied exactly once, groups taken along."""
