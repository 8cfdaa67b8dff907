"""Consumer groups: members, committed offsets, and the internal topic that stores both."""
