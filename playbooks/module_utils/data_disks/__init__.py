"""Data disks of a host: what the inventory wants, what is on the devices, what to do about the difference, doing it.

`wanted` reads the inventory, `device` looks at a disk, `judging` compares and never writes, `making` carries out and
takes away, `ledger` remembers what was made. Ansible ships these files to the hosts beside `tuning/`: standard library
only, relative imports.
"""
