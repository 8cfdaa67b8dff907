"""Data disks of a host: what is wanted, what is there, and the way from one to the other.

`wanted` reads the inventory, `device` looks at a disk, `judging` compares and never writes, `making` carries out and
takes away, `ledger` remembers what was made. Ansible ships these files to the hosts beside `tuning/`: standard library
only, relative imports.
"""
