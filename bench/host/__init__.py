"""What the host does while a trial runs, and how the system under test is kept within limits of memory and disk."""
