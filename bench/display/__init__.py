"""Output for people: live lines during a run, tables at its end, comparisons as text."""
