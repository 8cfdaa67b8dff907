"""Schema registries that others wrote, with their schemas in a topic of our broker."""
