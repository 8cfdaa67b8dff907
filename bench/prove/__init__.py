"""`highwater tune prove`: does a setting do anything on this very host? Measured off and on, in turn."""
