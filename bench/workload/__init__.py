"""The workload file: its sections as models, how it is read and put together, and the cells that it comes to."""
