"""A micro-batch into a database table, together with its progress, in one transaction."""
