"""Commits of rows and progress: fencing, what other writers and administrators of a table do, errors. No Spark."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, CrashPoint
from highwater.pipeline.drill.stops import Stops
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import Progress, ProgressError
from highwater.pipeline.tables import delta
from highwater.pipeline.tables.delta import DeltaPlace
from highwater.pipeline.tables.iceberg import IcebergPlace
from highwater.pipeline.tables.model import CommittedMeanwhileError, TableError
from tests.pipeline.tables.lake_tables import Delta, Iceberg
from tests.waiting import wait_until

COLUMNS = pa.schema([("id", pa.int64()), ("word", pa.string())])
ENDS = (Offsets({("orders", 0): 12}),)


def batch(number: int) -> Progress:
    return Progress("query", number, ENDS)


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"w{each}" for each in ids]], schema=COLUMNS)


def append(table: Delta | Iceberg, number: int, name: str = "a") -> None:
    opened = table.place.open(name, COLUMNS)
    opened.append(rows(number).cast(opened.schema).to_reader(), batch(number))


def ids(table: Delta | Iceberg) -> list[int]:
    found: list[int] = table.rows().column("id").to_pylist()
    return sorted(found)


def test_of_two_drivers_the_later_commit_is_refused(table: Delta | Iceberg) -> None:
    for number in (0, 1):
        first, second = (table.place.open("a", COLUMNS) for _ in range(2))
        first.append(rows(number).cast(first.schema).to_reader(), batch(number))
        with pytest.raises(CommittedMeanwhileError, match=f"did not take batch {number}: .+"):
            second.append(rows(number).cast(second.schema).to_reader(), batch(number))
    assert ids(table) == [0, 1]
    assert table.place.open("a").progress() == batch(1)


def test_each_name_has_its_progress_among_other_writers(
    table: Delta | Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "_RECENT", 3)
    append(table, 0)
    append(table, 7, "b")
    for number in range(6):
        table.write_as_another(rows(1000 + number))
    assert table.place.open("a").progress() == batch(0)
    assert table.place.open("b").progress() == batch(7)
    assert table.place.open("c").progress() is None
    append(table, 1)
    assert table.place.open("a").progress() == batch(1)


def test_a_batch_without_rows_is_stored(table: Delta | Iceberg) -> None:
    opened = table.place.open("a", COLUMNS)
    opened.append(pa.RecordBatchReader.from_batches(opened.schema, []), batch(0))
    assert table.place.open("a").progress() == batch(0)


def test_a_drill_stops_between_the_rows_and_the_commit(
    table: Delta | Iceberg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, 0)
    before = table.commit_count()
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "stops"))
    stops = Stops(tmp_path / "stops")
    stops.arm(CrashPoint.SINK_BEFORE_COMMIT)
    sink = threading.Thread(target=append, args=[table, 1])
    sink.start()
    try:
        wait_until(lambda: stops.who_waits(CrashPoint.SINK_BEFORE_COMMIT), "a sink that is about to commit")
        assert table.commit_count() == before
    finally:
        stops.release()
        sink.join()
    assert (table.commit_count(), ids(table)) == (before + 1, [0, 1])


def test_rows_that_end_with_an_error_leave_nothing(table: Delta | Iceberg) -> None:
    append(table, 0)
    opened = table.place.open("a")

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(1).cast(opened.schema).to_batches()
        raise ValueError("no more")

    with pytest.raises(TableError, match=r"did not take batch 1: .+"):
        opened.append(pa.RecordBatchReader.from_batches(opened.schema, broken()), batch(1))
    assert ids(table) == [0]
    assert table.place.open("a").progress() == batch(0)


def test_a_table_that_was_rolled_back(table: Delta | Iceberg) -> None:
    append(table, 0)
    append(table, 1)
    undo = table.roll_back()
    with pytest.raises(ProgressError, match=r"(restored|rolled back) to .*before batch 1 of sink a: "):
        table.place.open("a").progress()
    undo()
    assert table.place.open("a").progress() == batch(1)
    assert ids(table) == [0, 1]


def test_an_iceberg_table_of_which_snapshots_have_expired(tmp_path: Path) -> None:
    table = Iceberg(tmp_path)

    def expire(slot: int) -> None:
        kept = table.catalog.load_table("shop.orders")
        kept.maintenance.expire_snapshots().by_id(kept.metadata.snapshots[slot].snapshot_id).commit()

    append(table, 0)
    append(table, 1)
    for number in (2, 3):
        table.write_as_another(rows(number))
    for _ in range(3):
        expire(0)
        assert table.place.open("a").progress() == batch(1)
    append(table, 2)
    append(table, 3)
    table.roll_back()
    expire(-1)
    with pytest.raises(ProgressError, match="rolled back to before batch 3 of sink a: give the sink another name"):
        table.place.open("a").progress()
    table.write_as_another(rows(4))
    with pytest.raises(ProgressError, match="rolled back to before batch 3 of sink a: "):
        table.place.open("a").progress()


def test_a_delta_table_that_was_restored_to_a_time(tmp_path: Path) -> None:
    table = Delta(tmp_path)

    def restore_to_before(number: int) -> None:
        between = datetime.now(UTC) + timedelta(milliseconds=50)
        while datetime.now(UTC) <= between:
            pass
        append(table, number, "b" if number > 1 else "a")
        DeltaTable(table.path).restore(between)

    append(table, 0)
    restore_to_before(1)
    with pytest.raises(ProgressError, match="was restored to a time before batch 1 of sink a: restore it to version 2"):
        table.place.open("a").progress()
    DeltaTable(table.path).restore(2)
    restore_to_before(2)
    assert table.place.open("a").progress() == batch(1)


def test_a_delta_table_that_spark_restored_to_a_time(tmp_path: Path) -> None:
    """Only Spark knows of which zone the time is."""
    table = Delta(tmp_path)
    append(table, 0)
    DeltaTable(table.path).restore(0)
    newest = max((table.path / "_delta_log").glob("*.json"))
    parameters = r'"operationParameters":{"version":null,"timestamp":"2026-11-30 12:00:00"}'
    newest.write_text(re.sub(r'"operationParameters":\{[^}]*\}', parameters, newest.read_text()))
    with pytest.raises(ProgressError, match="restored to 2026-11-30 12:00:00, which may be before batch 0 of sink a: "):
        table.place.open("a").progress()


def test_a_commit_that_the_log_no_longer_has(tmp_path: Path) -> None:
    table = Delta(tmp_path)
    append(table, 0)
    for number in range(3):
        table.write_as_another(rows(number))
    DeltaTable(table.path).create_checkpoint()
    for commit in sorted((table.path / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    with pytest.raises(ProgressError, match="sink a has stored a batch, and its commit is no longer in the table's"):
        table.place.open("a").progress()
    assert table.place.open("b").progress() is None


def test_a_table_that_is_not_there(table: Delta | Iceberg) -> None:
    with pytest.raises(SettingsError, match=r"orders: create it, or let the sink do so \(create\)"):
        table.place.open("a")


def test_a_plain_folder_of_parquet(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(b"PAR1")
    for created_with in (None, COLUMNS):
        with pytest.raises(SettingsError, match="holds files and no Delta table: choose an empty folder"):
            DeltaPlace(str(tmp_path)).open("a", created_with)
    assert [path.name for path in tmp_path.iterdir()] == ["part.parquet"]


def test_a_catalog_that_cannot_be_reached_shows_no_secret(tmp_path: Path) -> None:
    for uri in (
        "postgresql+psycopg2://me:hunter2@127.0.0.1:1/catalog",
        f"sqlite:///{tmp_path}/none/hunter2.db",
        "hunter2",
    ):
        with pytest.raises(TableError, match=r"^the Iceberg table a\.b cannot be opened: ") as caught:
            IcebergPlace({"uri": uri}, "a.b").open("a")
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["orders", ".orders", "shop.", ""])
def test_a_name_without_a_namespace(name: str) -> None:
    with pytest.raises(SettingsError, match=r"is not written as NAMESPACE\.TABLE"):
        IcebergPlace({}, name)


@pytest.mark.parametrize(("module", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_library_that_is_missing(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    full_name = f"highwater.pipeline.tables.{module}"
    monkeypatch.delitem(sys.modules, full_name)
    with pytest.raises(SettingsError, match=rf"table needs the package {package}: .*pip install .*\[{module}\]"):
        __import__(full_name)
