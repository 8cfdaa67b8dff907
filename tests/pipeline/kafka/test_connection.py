"""The memory that answers are read into."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have their own ways")
def test_memory_that_an_answer_leaves_is_not_got_from_the_kernel_again() -> None:
    code = """
import resource
import numpy as np
from highwater.pipeline.kafka.connection import BrokerConnection


def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    of_a_fetch = [np.frombuffer(BrokerConnection.memory(None, 3 << 20), np.uint8) for _ in range(5)]
    for each in of_a_fetch:
        each.fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


_, *others = (new_pages() for _ in range(5))
assert max(others) < 100, others
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
