"""A load file of `highwater plan`, drawn from the history."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import UsageError
from highwater.monitor.cli import app
from highwater.monitor.errors import HistoryError
from highwater.monitor.history.database import Database, open_history
from highwater.monitor.history.kinds import BROKER, CLUSTER, GROUP, GROUP_PARTITION, KINDS, PARTITION, TOPIC
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.history.tick import EntityKey, Tick
from highwater.monitor.history.writer import TickWriter
from highwater.monitor.load_file import load_text
from highwater.monitor.load_history import draw, growth_of
from highwater.monitor.model import ConfigValue, Partition, Topic
from highwater.studies.capacity.load import Load, load_of
from tests.monitor.history.ticks import HOUR_MS, MINUTE_MS, START_MS, values_of

RECORD_BYTES = 1000
RATE = 100
"""Records per second, but for the busiest minutes."""
BURST = 5
HOSTILE = "billing\n  evil: {peak: 1GB/s}"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(open_history("sqlite", tmp_path / "data")) as opened:
        yield opened


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of 30 hours, which takes a second to write."""
    folder = tmp_path_factory.mktemp("history")
    with closing(open_history("sqlite", folder)) as opened:
        watch(opened)
    return folder


@pytest.fixture
def watched(history: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copytree(history, tmp_path / "data")
    with closing(open_history("sqlite", tmp_path / "data")) as opened:
        yield opened


def tick(at_ms: int, produced: int, *, deleted: int = 0, metrics: bool = True) -> Tick:
    held = produced - deleted
    leaders = held * RECORD_BYTES
    topics = {
        "orders": (produced, deleted, leaders),
        "idle": (0, 0, 0),
        "__consumer_offsets": (produced, 0, leaders),
    }
    rows: dict[str, dict[EntityKey, tuple[Any, ...]]] = {kind: {} for kind in KINDS}
    rows[CLUSTER.name][EntityKey("cluster", "shop eu", "")] = values_of(CLUSTER, brokers=3, tick_ms=at_ms % 977)
    for name, (end, start, size) in topics.items():
        rows[TOPIC.name][EntityKey("topic", name, "id")] = values_of(
            TOPIC, end_offsets=end, start_offsets=start, size_bytes=3 * size, leader_bytes=size, partitions=4
        )
    for number, share in enumerate((0.55, 0.15, 0.15, 0.15)):
        rows[PARTITION.name][EntityKey("partition", f"orders-{number}", "id")] = values_of(
            PARTITION, end_offset=round(produced * share)
        )
        for group, committed in ((HOSTILE, round(produced * share)), ("gone", 10)):
            rows[GROUP_PARTITION.name][EntityKey("group_partition", f"{group}/orders-{number}", "")] = values_of(
                GROUP_PARTITION, committed=committed
            )
    for group in (HOSTILE, "gone"):
        rows[GROUP.name][EntityKey("group", group, "")] = values_of(GROUP, members=3, lag_s=90.0)
    for broker, share in enumerate((0.5, 0.25, 0.25)):
        counted = {
            "bytes_in": round(produced * share) * RECORD_BYTES,
            "produce_requests": round(produced * share) // 10,
        }
        rows[BROKER.name][EntityKey("broker", str(broker), "")] = values_of(BROKER, **counted if metrics else {})
    return Tick(at_ms, rows)


def watch(database: Database, hours: float = 30, *, deletes: bool = True, metrics: bool = True) -> None:
    """Ticks of five minutes, and in the last two hours of one: the last ten minutes have BURST times the rate."""
    writer, produced, at_ms = TickWriter(database), 1000, START_MS
    end_ms = START_MS + round(hours * HOUR_MS)
    while at_ms <= end_ms:
        writer.write(tick(at_ms, produced, deleted=produced // 2 if deletes else 0, metrics=metrics))
        step_ms = MINUTE_MS if at_ms >= end_ms - 2 * HOUR_MS else 5 * MINUTE_MS
        at_ms += step_ms
        produced += RATE * step_ms // 1000 * (BURST if at_ms > end_ms - 10 * MINUTE_MS else 1)
    writer.maintain(end_ms)


def filled_in(text: str) -> Load:
    """As a person would: the planned hosts."""
    for key, value in [("memory", "32GiB"), ("network", "10Gbit/s"), ("count", "4"), ("size", "2TB"), ("time", "7d")]:
        text = text.replace(f"{key}: FILL_IN", f"{key}: {value}")
    return load_of(parse_document(text, "load.yaml"))


def test_a_load_file_of_what_the_cluster_carried(watched: Database, tmp_path: Path) -> None:
    made = tmp_path / "load.yaml"
    done = run(made, "--data", tmp_path / "data")
    assert done.exit_code == 0, done.output
    assert f"{made}: 1 topic of shop eu; put what you plan in the place of FILL_IN (3 lines)" in done.output
    text = made.read_text("utf-8")
    with pytest.raises(UsageError, match=r"load.yaml:\d+: hosts\.memory: 'FILL_IN' is not a size"):
        load_of(parse_document(text, "load.yaml"))
    load = filled_in(text)
    assert load.name == "shop-eu"
    (topic,) = load.topics.values()
    assert list(load.topics) == ["orders"]
    # The busiest minutes, and not the mean.
    assert topic.peak_bytes_per_s == pytest.approx(BURST * RATE * RECORD_BYTES)
    assert topic.mean_bytes_per_s == pytest.approx(RATE * RECORD_BYTES, rel=0.03)
    assert (topic.replication, topic.partitions, topic.groups, topic.consumers) == (3, 4, 1, 3)
    assert topic.lag_s == 90
    assert topic.batch_bytes == pytest.approx(10 * RECORD_BYTES, rel=0.01)
    # Half of all records since the beginning are there: about 15 hours of them.
    assert topic.retention.time_s == pytest.approx(15 * 3600, rel=0.1)
    assert load.cluster.imbalance == pytest.approx(1.5, abs=0.01)
    assert load.growth is None
    assert "# Partition 0 gets 55 % of the records, an even share is 25 %." in text
    assert "# Nothing was produced to idle." in text
    again = run(made, "--data", tmp_path / "data")
    assert (again.exit_code, again.stderr) == (2, f"error: {made} exists: name another file, or remove this one\n")
    assert made.read_text("utf-8") == text


def test_a_name_that_ends_a_line_stays_in_its_comment(watched: Database) -> None:
    text = load_text(draw(HistoryReader(watched), "history", 14))
    assert "# billing\\n  evil" in text
    assert set(yaml.safe_load(text)["topics"]) == {"orders"}


def test_settings_of_the_cluster_go_before_what_the_history_guesses(watched: Database) -> None:
    settings = {
        "min.insync.replicas": "2",
        "retention.ms": "172800000",
        "retention.bytes": "-1",
        "segment.bytes": "104857600",
        "cleanup.policy": "delete",
    }
    topic = Topic(
        "orders",
        "id",
        False,
        (Partition("orders", 0, 1, 0, (1, 2, 3, 4), (1, 2, 3, 4)),),
        {name: ConfigValue(value, "DEFAULT_CONFIG") for name, value in settings.items()},
    )
    drawn = draw(HistoryReader(watched), "history", 14)
    made = filled_in(load_text(drawn, {"orders": topic})).topics["orders"]
    assert (made.min_insync_replicas, made.replication, made.segment_bytes) == (2, 4, 100 << 20)
    assert (made.retention.time_s, made.retention.bytes_per_partition) == (2 * 86_400, None)
    compacted = replace(topic, config={"cleanup.policy": ConfigValue("compact", "DYNAMIC_TOPIC_CONFIG")})
    made = filled_in(load_text(drawn, {"orders": compacted})).topics["orders"]
    assert made.retention.time_s is None
    assert made.retention.bytes_per_partition == round(drawn.topics[0].partition_bytes or 0)


def test_what_nobody_knows_is_to_be_filled_in(database: Database) -> None:
    watch(database, deletes=False, metrics=False)
    text = load_text(draw(HistoryReader(database), "history", 14))
    assert "retention: {time: FILL_IN}  # nothing was deleted meanwhile" in text
    assert "batch: FILL_IN" in text
    assert "imbalance" not in yaml.safe_load(text)["cluster"]


def test_a_history_that_is_too_short(database: Database) -> None:
    with pytest.raises(HistoryError, match="history: the history is empty; let highwater monitor serve run for a day"):
        draw(HistoryReader(database), "history", 14)
    watch(database, hours=5)
    with pytest.raises(
        HistoryError, match=r"history: has 5 hours of shop eu, and its busiest minute is not known of less"
    ):
        draw(HistoryReader(database), "history", 14)


def test_a_cluster_that_does_not_answer(watched: Database, tmp_path: Path) -> None:
    done = run(tmp_path / "load.yaml", "--data", tmp_path / "data", "-b", "127.0.0.1:1")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: 127.0.0.1:1: ")
    assert done.stderr.endswith("--data DIR alone goes without the cluster's settings\n")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "load.yaml").exists()


def test_growth_needs_weeks_and_is_certain_or_not_told() -> None:
    hour_of_a_week = 24 * 7
    rising = {hour: 1e6 * (1 + 0.01 * (hour // hour_of_a_week)) for hour in range(10 * hour_of_a_week)}
    found, weeks = growth_of(rising)
    assert weeks >= 9
    assert found is not None
    # One percent of the first week in each week is 4.35 % a month then, and less of the last weeks.
    assert found.low <= found.per_month <= found.high
    assert found.per_month == pytest.approx(0.01 * 365.25 / 84 / 1.08, rel=0.05)
    still = dict.fromkeys(range(10 * hour_of_a_week), 1e6)
    assert growth_of(still)[0] is None
    assert growth_of(dict(list(rising.items())[: 4 * hour_of_a_week])) == (None, 4)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["load-file", *map(str, words)])
