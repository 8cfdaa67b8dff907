"""The planner: how many brokers a load needs, from ceilings that a benchmark measured. Pure."""
