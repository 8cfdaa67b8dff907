"""The host tuner: facts about a host, recommended settings for a log broker, changes and rollback.

Everything but `cli` uses the standard library only, with relative imports: Ansible ships these files to the hosts.
"""
