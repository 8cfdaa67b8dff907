"""Consumer groups: who is in them, what they have consumed, and the internal topic that remembers both."""
