"""`highwater tune matrix`: which settings matter on this host, under which load, on which disk."""
