"""A broker that runs alone: its store, its topics, its view of itself."""
