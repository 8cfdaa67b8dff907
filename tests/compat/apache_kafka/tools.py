"""Runs one of Apache Kafka's Java tools from the jars that `run` fetched (environment variable KAFKA_JARS)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 120


def kafka_tool(
    main_class: str, *arguments: str, stdin: str = "", timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Output and exit status of the tool. Raises KeyError without KAFKA_JARS, TimeoutExpired when it hangs."""
    jars = Path(os.environ["KAFKA_JARS"])
    return subprocess.run(
        ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", main_class, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
