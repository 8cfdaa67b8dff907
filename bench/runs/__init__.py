"""A run: which trial comes next, who carries it out, what stands around it and how it is gone on with."""
