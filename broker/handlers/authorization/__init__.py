"""What each API demands of a client, and how the answer refuses what the client may not do."""
