"""Results over time, and the changes that Apache Otava finds in them."""
