"""Producer and consumer load from Spark executors; imports no other room, so that it can be shipped on its own."""
