"""The broker of a trial: a process of its own with the file's topics, gone with the run."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from highwater.common.child_process import HIGHWATER
from highwater.pipeline.broker_process import BrokerProcess
from highwater.pipeline.errors import ClientError
from highwater.pipeline.run.model import SampleTopic

_TIMEOUT_S: Final = 30


@contextlib.contextmanager
def trial_broker(topics: Sequence[SampleTopic]) -> Iterator[str]:
    """A broker on a free port of this host with these topics and their records; yields HOST:PORT.

    It ends with this thread too, however that ends. Raises ClientError if it does not start or takes no records.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-trial-") as folder:
        broker = BrokerProcess(Path(folder), ends_with_thread=True)
        try:
            broker.start()
            for topic in topics:
                make_topic(topic, broker.address)
            yield broker.address
        finally:
            broker.stop()


def make_topic(topic: SampleTopic, address: str) -> None:
    """Create the topic and write its records. Raises ClientError."""
    of_topic = ("--topic", topic.name, "--bootstrap-server", address)
    _command(topic, "topics", "--create", "--partitions", str(topic.partitions), *of_topic)
    if topic.records is not None:
        with topic.records.open("rb") as lines:
            _command(topic, "produce", *of_topic, lines=lines)


def _command(topic: SampleTopic, *arguments: str, lines: IO[bytes] | None = None) -> None:
    done = subprocess.run(
        [*HIGHWATER, "broker", *arguments],
        stdin=lines or subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it failed without a word"]
        raise ClientError(f"topic {topic.name} of the trial: {said[-1].removeprefix('error: ')}")
