"""Captures of loads as traces without a byte of their records."""
