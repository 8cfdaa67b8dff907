"""Quotas: how much of a broker each client may use. Pure: times are arguments."""
