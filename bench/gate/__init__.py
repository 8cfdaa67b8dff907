"""The gate: policy, the two sides, reasoning, and the outcome for CI systems."""
