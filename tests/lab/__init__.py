"""The lab: Debian hosts on one machine, booted by systemd-nspawn, for the playbooks to work on.

`python -m tests.lab up --hosts 3` makes them, `down` takes all of it away. Each has a systemd, an ssh server, a network
and two disks of its own, one of them slowed down like a hard disk. What they share with the machine is its kernel:
vm.*, block queues and the clock belong to it and are read-only inside; tests/lab/guests.py boots a kernel of its own.
"""
