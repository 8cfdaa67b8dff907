"""Every call of the newest Java clients, on Apache Kafka and on our broker, with `recorded/java_calls.md` for both.

.venv/bin/python -m tests.compat.apache_kafka.java_calls            our broker beside the table; fails if it differs
.venv/bin/python -m tests.compat.apache_kafka.java_calls --record   asks both, and writes the table
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.broker.running import running_broker
from tests.compat.apache_kafka.cluster_cases import cluster_case
from tests.compat.apache_kafka.system_cases import start_kafka
from tests.compat.apache_kafka.tools import HERE, jars_4

TABLE: Final = HERE / "recorded" / "java_calls.md"
_ANSWERED: Final = "answered"
_NO_ANSWER_S: Final = 300


def of_ours(directory: Path) -> dict[str, str]:
    """Outcomes by call."""
    with running_broker(directory / "ours") as broker:
        return _calls(broker.address)


def of_kafka(directory: Path) -> dict[str, str]:
    with start_kafka(directory / "kafka", "4", 1, {}) as kafka:
        return _calls(kafka.bootstrap_servers)


def _calls(address: str) -> dict[str, str]:
    java = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{jars_4()}/*", str(HERE / "JavaCalls.java"))
    done = subprocess.run([*java, address], capture_output=True, text=True, timeout=_NO_ANSWER_S, check=False)
    lines = [line.removeprefix("call ") for line in done.stdout.splitlines() if line.startswith("call ")]
    assert done.returncode == 0, done.stderr[-2000:]
    assert lines, done.stderr[-2000:]
    return dict(line.split(" => ") for line in lines)


def table(ours: Mapping[str, str], kafka: Mapping[str, str]) -> str:
    """The answer first: for how many calls both do the same."""
    alike = [call for call in kafka if ours[call] == kafka[call]]
    by_kafka, by_ours = (sum(outcome == _ANSWERED for outcome in found.values()) for found in (kafka, ours))
    return "\n".join(
        [
            "# Every call of the newest Java clients",
            "",
            f"Of {len(kafka)} calls of the clients of Kafka 4.4, {len(alike)} end on our broker as on 4.4.0. Kafka",
            f"answers {by_kafka}, ours {by_ours}. `python -m tests.compat.apache_kafka.java_calls --record` asks both.",
            "",
            "| call | Apache Kafka 4.4.0 | ours |",
            "|---|---|---|",
            *(f"| {call} | {kafka[call]} | {ours[call]} |" for call in kafka if call not in alike),
            *(f"| {call} | {kafka[call]} | {ours[call]} |" for call in alike),
            "",
        ]
    )


def recorded() -> dict[str, str]:
    """Our outcomes by call, off the table."""
    rows = [line.strip("| ").split(" | ") for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return {call: ours for call, _, ours in rows[1:]}


@cluster_case
def every_call_of_the_newest_java_clients(directory: Path) -> None:
    found, expected = of_ours(directory), recorded()
    differing = [
        f"{call}: {found.get(call)}, recorded {expected.get(call)}"
        for call in found.keys() | expected.keys()
        if found.get(call) != expected.get(call)
    ]
    assert not differing, "; ".join(sorted(differing))


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        if arguments == ["--record"]:
            TABLE.write_text(table(of_ours(Path(name)), of_kafka(Path(name))), "utf-8")
        else:
            every_call_of_the_newest_java_clients(Path(name))


if __name__ == "__main__":
    main(sys.argv[1:])
