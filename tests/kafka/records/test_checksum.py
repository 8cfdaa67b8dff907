"""The checksum is that of the package crc32c, of which nothing else is imported."""

from __future__ import annotations

import subprocess
import sys

import crc32c

from highwater.kafka.records import checksum


def test_it_is_the_function_of_the_package() -> None:
    assert checksum.crc32c(b"6789", checksum.crc32c(b"12345")) == crc32c.crc32c(b"123456789") == 0xE3069283


def test_nothing_else_of_the_package_is_imported() -> None:
    code = "import sys, highwater.kafka.records.checksum; print('crc32c' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
