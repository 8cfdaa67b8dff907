"""One trial from start to end: plan, load, summary, verdict."""
