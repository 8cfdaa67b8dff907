"""Quotas: how many bytes a second clients may produce and fetch. Pure: times are arguments."""
