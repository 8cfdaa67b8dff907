"""Retries, dead letters, delayed delivery, filters and traces over plain topics."""
