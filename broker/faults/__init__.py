"""Faults on command: a broker that fails as a script says (docs/faults.md)."""
