"""What a task tells a control broker once a second: counts and buckets that add up exactly."""
