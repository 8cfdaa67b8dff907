"""The gate: what it is held to, what it compares, how it reasons, and its outcome for CI systems."""
