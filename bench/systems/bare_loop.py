"""The floor under every broker as a system under test: a loop that receives and writes.

Its topics exist as soon as somebody asks for them, all with the same partitions in the same files. What a client
reaches with it is what client, loopback and file system leave to any broker (bench/native/bare_loop.c).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from highwater.bench.native.programs import program
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.process import SystemProcess, ready_line
from highwater.bench.systems.running import StartedSystem
from highwater.common.atomic_files import write_atomically

BARE_LOOP: Final = "bare-loop"
_LENGTH_AT: Final = 8
_LAST_OFFSET_DELTA_AT: Final = 23
_HEAD_BYTES: Final = 61


class BareLoopClient(BrokerClient):
    """Looks at the files of a loop, which answers nothing but a producer."""

    def __init__(self, address: str, directory: Path) -> None:
        super().__init__(address)
        self._directory = directory

    def create_topic(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str | int | float | bool],
        timeout_s: float | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        replication: int | None = None,
    ) -> None:
        """Every topic is there already; the loop only has to know how many partitions its topics have from now on."""
        # The loop reads the file at each metadata request, and must never find half of it.
        write_atomically(self._directory / "partitions", f"{partitions}\n")

    def delete_topic(self, name: str) -> None:
        """Empty the logs of all topics, since topics share their files."""
        for path in self._directory.glob("*.log"):
            os.truncate(path, 0)

    def records_by_partition(self, name: str, partitions: int) -> list[int]:
        """Count the records by the record batches in the files."""
        return [_records_in(self._directory / f"{partition}.log") for partition in range(partitions)]

    def effective_config(self) -> dict[str, str]:
        return {}

    def effective_topic_config(self, topic: str) -> dict[str, str]:
        return {}


class BareLoop(StartedSystem):
    """A running loop with the client that knows how to look at it."""

    def __init__(self, process: SystemProcess, directory: Path) -> None:
        super().__init__(BARE_LOOP, "1", [process])
        self.client = BareLoopClient(process.address, directory)


def start_bare_loop(
    directory: Path, log_directory: Path, checkpoint: Callable[[], None], *, ready_within_s: float
) -> BareLoop:
    """Raises UsageError when this host has no compiler."""
    command = [str(program("bare_loop")), str(directory)]
    process = SystemProcess("the loop", command, log_directory / "system.log")
    try:
        process.await_ready(ready_line, checkpoint, ready_within_s)
        return BareLoop(process, directory)
    except BaseException:
        process.stop()
        raise


def _records_in(path: Path) -> int:
    records = 0
    if not path.exists():
        return 0  # nothing was sent to it
    with path.open("rb") as file:
        while len(head := file.read(_HEAD_BYTES)) == _HEAD_BYTES:
            (length,) = struct.unpack_from(">i", head, _LENGTH_AT)
            (last_offset_delta,) = struct.unpack_from(">i", head, _LAST_OFFSET_DELTA_AT)
            records += last_offset_delta + 1
            file.seek(12 + length - _HEAD_BYTES, os.SEEK_CUR)
    return records
