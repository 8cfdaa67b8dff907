"""The analysis of trials: intervals, tests and noise."""
