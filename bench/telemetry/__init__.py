"""What a run publishes to a control broker, for live figures, while it lasts."""
