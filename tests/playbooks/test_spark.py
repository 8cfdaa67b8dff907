"""What role spark refuses before it changes anything."""

from __future__ import annotations

import re
from pathlib import Path

from tests.playbooks.playing import play_part

# As `-e name=value` gives them.
NUMBERS = {"spark_worker_memory_mib": "512", "spark_daemon_memory_mib": "64"}


def test_an_address_at_which_no_other_host_finds_spark_is_refused(tmp_path: Path) -> None:
    """That of a name which the host itself has at 127.0.1.1, as Debian's installer writes it."""
    addresses = {"good": "10.0.0.1", "loopback": "127.0.1.1", "six": "fd00::1"}
    inventory = {
        "hosts": {name: {"spark_address": address} for name, address in addresses.items()},
        "children": {"spark_master": {"hosts": {"good": None}}, "spark_workers": {"hosts": dict.fromkeys(addresses)}},
    }
    done = play_part(tmp_path, "spark", "assert", inventory, **NUMBERS)
    said = " ".join((done.stdout + done.stderr).split())
    assert re.search("good : ok=.* failed=0 ", said)
    assert "loopback: spark_address is 127.0.1.1, which the host itself has at 127.0.1.1, where no other host" in said
    assert "six: spark_address is fd00::1, which the host itself has at no IPv4 address" in said
