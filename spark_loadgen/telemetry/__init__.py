"""What a task sends to a control broker once a second: counts and buckets that add up exactly."""
