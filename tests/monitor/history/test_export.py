"""A history as Parquet files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet
import pytest

from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import open_history, open_to_read
from highwater.monitor.history.export import export_parquet
from highwater.monitor.history.tables import ROWS
from highwater.monitor.history.writer import TickWriter
from tests.monitor.history.ticks import START_MS, tick


def test_each_table_becomes_a_file_with_names_and_times(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    writer = TickWriter(database)
    event = Event(START_MS, EventKind.BROKER_GONE, "broker", "2", "broker 2 is gone")
    for number in range(100):
        now_ms = START_MS + number * 15_000
        writer.write(tick(now_ms, end_offsets=number, lag=None, events=[event] if number == 3 else []))
        writer.maintain(now_ms)
    reading = open_to_read("sqlite", tmp_path)  # beside a monitor that runs
    files = dict(export_parquet(reading, tmp_path / "out" / "deep"))
    assert {path.stem for path in files} == {f"{kind}_{tier.value}" for kind, tier in ROWS} | {"event"}
    assert all(pyarrow.parquet.read_metadata(path).num_rows == count for path, count in files.items())
    topics = pyarrow.parquet.read_table(tmp_path / "out" / "deep" / "topic_raw.parquet").to_pylist()
    assert [row["end_offsets"] for row in topics] == list(range(100))
    assert topics[1]["t"] == datetime.fromtimestamp(START_MS / 1000 + 15, UTC)
    assert (topics[0]["name"], topics[0]["incarnation"]) == ("orders", "id-1")
    groups = pyarrow.parquet.read_table(tmp_path / "out" / "deep" / "group_5min.parquet").to_pylist()
    assert [(row["lag"], row["lag_max"], row["verdict"]) for row in groups] == [(None, None, "OK")] * 4
    (found,) = pyarrow.parquet.read_table(tmp_path / "out" / "deep" / "event.parquet").to_pylist()
    assert (found["kind"], found["name"]) == ("broker_gone", "2")
    assert not list((tmp_path / "out").rglob("*.tmp"))
    reading.close()
    database.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot write there"):
        list(export_parquet(database, tmp_path / "file"))
    database.close()
