"""Storage targets of a log, what fio measures there, and what the page cache holds.

The disk emulated for machines that have one medium only is `highwater.bench.storage.emulated_hdd`.
"""
