"""What clients of others do under the scripts of examples/faults: `python -m tools.fault_recipes`."""
