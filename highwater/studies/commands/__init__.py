"""The verbs of `highwater` that study results; `highwater/cli.py` mounts them."""
