"""How long a group's offsets stay behind finished batches: `python -m tests.compat.pipeline.commit_delay [BATCHES]`.

A stream with `commitOffsets` reads what is produced beside it. A client polls the group until it has the end of each
batch, and compares the time with that of the batch's file in Spark's commit log. At last a run with availableNow ends,
and `highwater broker groups` shows the lag of the group.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.source import offsets_behind_latest, register
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics
from tests.pipeline.spark_session import spark_session

TOPIC: Final = "timed"
GROUP: Final = "timed-group"
_BATCHES: Final = 40
_POLL_S: Final = 0.005
_DEADLINE_S: Final = 300.0


def committed(client: Client) -> int:
    """Of partition 0; 0 if there is none."""
    found = client.committed_offsets(GROUP, [(TOPIC, 0)])
    assert isinstance(found, dict), found
    offset = found.get((TOPIC, 0))
    return offset.offset if isinstance(offset, CommittedOffset) else 0


def delays_ms(client: Client, checkpoint: Path, batches: int) -> list[float]:
    """From a batch in Spark's commit log to the group that has its end, for so many batches."""
    found: list[float] = []
    deadline_s = time.monotonic() + _DEADLINE_S
    for batch in range(1, batches + 1):
        file = checkpoint / "commits" / str(batch)
        while not file.exists():
            assert time.monotonic() < deadline_s, f"there is no batch {batch}"
            time.sleep(_POLL_S)
        finished_s = file.stat().st_mtime
        end = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])[TOPIC]["0"]
        while committed(client) < end:
            assert time.monotonic() < deadline_s, f"the group does not get the end of batch {batch}"
            time.sleep(_POLL_S)
        found.append((time.time() - finished_s) * 1000)
    return found


def writer_of(spark: SparkSession, address: str, checkpoint: Path) -> DataStreamWriter:
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    frame = spark.readStream.format("highwater").options(**options, commitOffsets=GROUP).load()
    return frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))


def measure(batches: int) -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-commit-delay-") as scratch:
        folder = Path(scratch)
        with (
            running_broker(folder / "log", properties=["group.initial.rebalance.delay.ms=0"]) as broker,
            spark_session(folder / "spark") as spark,
            Client(settings_of({"bootstrap.servers": broker.address})) as client,
        ):
            register(spark)
            topics = Topics(broker.address)
            topics.create(TOPIC)
            topics.produce(TOPIC, 10)
            enough = threading.Event()

            def produce() -> None:
                while not enough.wait(0.1):
                    topics.produce(TOPIC, 20)

            producing = threading.Thread(target=produce)
            checkpoint = folder / "checkpoint"
            query = writer_of(spark, broker.address, checkpoint).start()
            producing.start()
            try:
                found = delays_ms(client, checkpoint, batches)
            finally:
                enough.set()
                producing.join()
            query.processAllAvailable()
            say(f"{batches} batches: {_summary(found)}")
            query.stop()
            topics.produce(TOPIC, 30)
            last = writer_of(spark, broker.address, checkpoint).trigger(availableNow=True).start()
            last.awaitTermination()
            progress = last.lastProgress
            assert progress is not None
            say(f"a run with availableNow has ended: {offsets_behind_latest(progress['sources'][0])}; its group:")
            describe = [sys.executable, "-m", "highwater", "broker", "groups", "--describe", "--group", GROUP]
            say(subprocess.check_output([*describe, "--bootstrap-server", broker.address], text=True))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _summary(found: list[float]) -> str:
    return f"p50 {statistics.median(found):.0f} ms, the longest {max(found):.0f} ms behind Spark's commit log"


if __name__ == "__main__":
    measure(int(sys.argv[1]) if sys.argv[1:] else _BATCHES)
