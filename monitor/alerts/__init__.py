"""Alerts: opened and closed with a reason, kept over a restart, and delivered."""
