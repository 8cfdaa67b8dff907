"""What may be concluded from trials: intervals, tests and noise."""
