"""Starts brokers of this version and of others in folders of their own, for measurements in turns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.bench.systems.highwater import start_highwater

WITHIN_S: Final = 60.0
"""A broker is ready, and a topic is there, within this time."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that serves. place: an empty folder for other files."""

    place: Path
    port: int
    process_id: int
    admin: AdminClient

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self.admin.create_topics([NewTopic(name, partitions)])[name].result(WITHIN_S)


@contextmanager
def running(source: Path | None, folder: Path | None = None) -> Iterator[Running]:
    """A broker of the checkout or unpacked wheel `source`, or of this version, in a folder that is removed afterwards.

    folder: where that folder is made, by default where temporary files are. Raises TrialError when the broker does not
    start, and UsageError when `source` holds none.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-development-", dir=folder) as name:
        place = Path(name)
        data = place / "data"
        data.mkdir()
        with start_highwater(1, {}, [data], place, _go_on, ready_within_s=WITHIN_S, source=source) as system:
            (broker,) = system.brokers
            admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
            yield Running(place, int(broker.address.rpartition(":")[2]), broker.process_ids[0], admin)


def _go_on() -> None:
    """Never give up."""


def in_turns(versions: Iterable[str], rounds: int) -> Iterator[str]:
    """All versions in each round, each second round in the other order."""
    names = list(versions)
    for number in range(rounds):
        yield from names if number % 2 else reversed(names)
