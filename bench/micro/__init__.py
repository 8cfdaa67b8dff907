"""Cost of steps of the broker: `make bench-micro` or `python -m highwater.bench.micro -o FILE` with pyperf's options.

For development only: it imports the broker and the socketless node of its tests, and is not shipped.
"""
