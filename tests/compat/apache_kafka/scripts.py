"""Runs a command line with the names of Apache Kafka's scripts in a shell, as somebody who pastes it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

_CLASSES: Final = {
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
_TIMEOUT_S: Final = 180


def pasted(command: str, directory: Path, jars: Path) -> str:
    """What it prints; it must succeed. The scripts, with tools of `jars`, are made in `directory`."""
    directory.mkdir(exist_ok=True)
    for name, main_class in _CLASSES.items():
        script = directory / name
        java = f"java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '{jars}/*'"
        script.write_text(f'#!/bin/sh\nexec {java} {main_class} "$@"\n')
        script.chmod(0o755)
    environment = os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}: exit {done.returncode}: {printed[-800:]}"
    assert "Exception" not in printed, f"{command}: {printed[-800:]}"
    return done.stdout
