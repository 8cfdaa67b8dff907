"""Hostile bytes in the stages before a login, by seed: what a stranger may send without a password."""
