"""Cost of steps of the broker: `make bench-micro`, or this package run with `-o FILE` and pyperf's options.

For development only: it imports the broker and the socketless node of its tests, and is not shipped.
"""
