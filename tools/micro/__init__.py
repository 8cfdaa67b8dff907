"""Micro-benchmarks of the broker: `make bench-micro`.

For development only: it imports the broker and the socketless node of its tests, and is not shipped.
"""
