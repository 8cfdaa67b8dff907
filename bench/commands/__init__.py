"""The verbs of `highwater bench`; `highwater.bench.cli` mounts them."""
