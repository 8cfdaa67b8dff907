"""The commands that this room brings to `highwater broker`: dlq, retry, delay, trace."""
