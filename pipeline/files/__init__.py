"""A micro-batch into files."""
