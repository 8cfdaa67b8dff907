"""The history of a cluster in a database: rows of each tick in three tiers, and events."""
