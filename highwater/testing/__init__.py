"""Brokers for the tests of other projects: fixtures of pytest, and a process that starts brokers fast."""
