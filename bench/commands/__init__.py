"""The verbs of `highwater bench`, a module for each few that belong together; `bench.cli` mounts them."""
