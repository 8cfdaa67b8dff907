"""Micro-benchmarks of the broker: `make bench-micro`.

For development only: it imports the broker and the socketless node of its tests, and is not shipped.
"""

import os

from highwater.common.compiled import SETTING

# The stored baseline is of the Python. Here, as the processes that pyperf starts inherit no such variable.
os.environ.setdefault(SETTING, "0")
