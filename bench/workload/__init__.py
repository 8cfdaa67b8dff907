"""The workload file: its sections as models, how it is read, and the cells it expands to."""
