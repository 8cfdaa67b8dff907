"""The sums over micro-batches without Spark: stored, gone on with after a crash, refused where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.common.errors import UsageError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf, ProgressError
from highwater.studies.telemetry.comparing import differences_of_sums
from highwater.studies.telemetry.figures import trial_figures
from highwater.studies.telemetry.live import Live, Sink
from highwater.studies.telemetry.parquet import ParquetSink
from highwater.studies.telemetry.rows import rows_of
from highwater.studies.telemetry.store import Changed, Store
from highwater.studies.telemetry.sums import Sums, TrialSums, summed
from tests.studies.telemetry.messages import TRIAL, imagined_load


class CrashError(Exception):
    pass


def batch(number: int, messages: Sequence[bytes], sizes: Sequence[int], query: str = "q") -> tuple[pa.Table, BatchOf]:
    start, end = (Offsets({("hw.telemetry", 0): sum(sizes[:count])}) for count in (number, number + 1))
    taken = messages[start.next["hw.telemetry", 0] : end.next["hw.telemetry", 0]]
    return summed(pa.Table.from_batches([rows_of(taken)])), BatchOf(query, number, (end,), (start,))


def final_sums(messages: Sequence[bytes]) -> TrialSums:
    sums = Sums()
    sums.add(summed(pa.Table.from_batches([rows_of(messages)])))
    return sums.trials[TRIAL]


def crash_in(sink_calls: list[int], crash_at: Callable[[int], bool]) -> Sink:
    def sink(changed: Sequence[Changed], batch_id: int) -> None:
        sink_calls.append(batch_id)
        if crash_at(len(sink_calls)):
            raise CrashError

    return sink


@pytest.mark.parametrize("seed", range(8))
def test_after_any_crash_every_message_counts_once(tmp_path: Path, seed: int) -> None:
    """A crash before the store has the micro-batch, and a replay of one that it has."""
    messages, random = list(imagined_load(seed).encoded()), Random(seed)
    sizes: list[int] = []
    while sum(sizes) < len(messages):
        sizes.append(min(random.randrange(1, 12), len(messages) - sum(sizes)))
    calls: list[int] = []
    number = 0
    while number < len(sizes):
        with Store(tmp_path, create=True) as store:
            live = Live(store, [ParquetSink(tmp_path), crash_in(calls, lambda _: random.random() < 0.3)])
            try:
                while number < len(sizes):
                    live.take(*batch(number, messages, sizes))
                    if random.random() < 0.3:  # Spark repeats what it has not noted as committed
                        break
                    number += 1
            except CrashError:
                pass
    with Store(tmp_path) as store:
        stored = store.sums(TRIAL)
        assert stored is not None
        assert differences_of_sums(stored, final_sums(messages)) == []
        figures = {one["second"]: one for one in store.seconds(TRIAL)}
        assert [trial.figures["state"] for trial in store.trials()] == [trial_figures(stored).state]
    rows = {}
    for number in range(len(sizes)):
        folder = tmp_path / "parquet" / f"batch={number}"
        if (folder / "_SUCCESS").exists():
            table = pq.read_table(folder / "seconds.parquet", partitioning=None)
            rows.update({row["second"]: row for row in table.to_pylist()})
    assert sorted(rows) == sorted(figures) == list(range(8))
    for second, row in rows.items():
        assert row["acked"] == figures[second]["acked"]
        assert {m: latency["p99"] for m, latency in row["latencies"]} == {
            metric: latency["p99"] for metric, latency in figures[second]["latencies"].items()
        }
        assert {host: dict(sample) for host, sample in row["hosts"]} == figures[second]["hosts"]


def test_another_checkpoint_or_another_topic_is_refused(tmp_path: Path) -> None:
    messages = list(imagined_load(1).encoded())
    with Store(tmp_path, create=True) as store:
        Live(store).take(*batch(0, messages, [10, 10]))
        with pytest.raises(ProgressError, match="query q writes here"):
            Live(store).take(*batch(0, messages, [10, 10], query="other"))
        store.claim("hw.telemetry at one:9092")
        with pytest.raises(UsageError, match=r"has the figures of hw.telemetry at one:9092, not of x at two:9092: use"):
            store.claim("x at two:9092")
        assert store.progress() is not None


def test_a_directory_without_figures_or_with_those_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no live figures; highwater bench telemetry live --state writes them"):
        Store(tmp_path)
    (tmp_path / "live.sqlite").write_bytes(b"no database at all, whatever its name says" * 100)
    with pytest.raises(UsageError, match="is not a readable database of live figures"):
        Store(tmp_path)
    (tmp_path / "live.sqlite").unlink()
    with Store(tmp_path, create=True) as store:
        store._database.execute("update meta set value = '7' where key = 'schema_version'")
    for create in (False, True):
        with pytest.raises(UsageError, match="has schema version 7, and this Highwater knows 2: use the Highwater"):
            Store(tmp_path, create=create)
    assert (tmp_path / "live.sqlite").exists()


def test_figures_say_how_far_behind_the_load_they_are(tmp_path: Path) -> None:
    messages = list(imagined_load(2).encoded())
    t0_s = 1_700_000_000
    with Store(tmp_path, create=True) as store:
        live = Live(store, now_s=lambda: t0_s + 8 + 3.5)
        live.take(*batch(0, messages, [len(messages)]))
        (trial,) = store.trials()
    assert trial.behind_s == pytest.approx(3.5)
