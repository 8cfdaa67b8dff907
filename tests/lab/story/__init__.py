"""The whole story of the playbooks on booted hosts: from bare to a benchmarked cluster, over its accidents, and back.

`python -m tests.lab test` tells it (telling.py), as root, on a lab of its own. Each step (becoming, living, processing,
leaving) says in one line what was seen, by other means than the playbooks' own, and the first that is not as it should
be ends it.
"""
