"""Assignors of consumer groups of KIP-848: who reads which partitions. Pure: no clock, no sockets."""
