"""Sinks that write DataFrames to topics: a micro-batch as one transaction, or each task by itself."""
