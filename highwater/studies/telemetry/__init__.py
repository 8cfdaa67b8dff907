"""Live figures of a load: summed up by Spark from a control broker, equal to the final ones."""
