"""Reads records of one partition for a page, within bounds, and leaves no trace in the cluster."""
