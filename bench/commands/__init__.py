"""The verbs of `highwater bench`, a module for each few that belong together; `highwater.bench.cli` mounts them."""
