"""The instrument: workload files, plans, trials, verdicts and the result directory."""
