"""One trial from start to end: its plan, its load, what is made of what came back, and whether that may be believed."""
