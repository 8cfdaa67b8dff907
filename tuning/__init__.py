"""What a host is, what it should be for a page-cache log broker, and why.

Everything but `cli` uses the standard library only, with relative imports: Ansible ships these files to the hosts.
"""
