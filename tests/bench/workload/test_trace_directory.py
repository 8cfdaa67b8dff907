"""A trace directory: written as a whole, read with its digests, refused when it is something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.bench.workload.trace_directory import ARRIVALS, DISTRIBUTIONS, MANIFEST, Trace, read_trace, write_trace
from highwater.common.errors import UsageError
from highwater.studies.capture.summing import parts_of
from tests.studies.capture.logs import batch, new_statistics, observed, record, trace_of


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return trace_of(tmp_path / "trace", observed(batch(0, [record(at) for at in range(0, 3000, 7)])))


def test_what_was_written_is_read(trace: Trace, tmp_path: Path) -> None:
    assert trace.manifest.records == 429
    assert (trace.manifest.lasts_ms, trace.arrivals.sum()) == (2997, 429)
    assert trace.distributions.records is not None
    assert trace.distributions.records.keys.rows == [(429, 3, 0, 1)]
    assert {path.name for path in (tmp_path / "trace").iterdir()} == {MANIFEST, ARRIVALS, DISTRIBUTIONS}


def test_a_directory_that_exists_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="exists already; name a new directory"):
        trace_of(tmp_path / "there", observed(batch(0, [record(0)])))
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine"]
    with pytest.raises(UsageError, match="is not a directory; make it first"):
        trace_of(tmp_path / "none" / "trace", observed(batch(0, [record(0)])))


def test_nothing_is_left_of_a_trace_that_could_not_be_written(tmp_path: Path) -> None:
    def fails(trace: Trace) -> dict[str, str]:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        write_trace(tmp_path / "trace", *parts_of(observed(batch(0, [record(0)])), "topic"), fails)
    assert list(tmp_path.iterdir()) == []


def changed_manifest(directory: Path, **changes: object) -> None:
    manifest = json.loads((directory / MANIFEST).read_text())
    (directory / MANIFEST).write_text(json.dumps({**manifest, **changes}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"schema": "highwater.trace/2"},
            r"has the schema highwater.trace/2, and this Highwater reads up to .*update it",
        ),
        ({"schema": "bench.manifest/1"}, "is not a manifest of a trace: schema"),
        ({"more": 1}, "is not a manifest of a trace: more"),
    ],
)
def test_manifests_of_others(trace: Trace, tmp_path: Path, changes: dict[str, object], says: str) -> None:
    changed_manifest(tmp_path / "trace", **changes)
    with pytest.raises(UsageError, match=says):
        read_trace(tmp_path / "trace")


def test_damaged_and_missing_files(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a trace: it has no manifest.json"):
        read_trace(tmp_path)
    path = tmp_path / "trace" / DISTRIBUTIONS
    path.write_bytes(path.read_bytes().replace(b"429", b"428", 1))
    with pytest.raises(UsageError, match=r"distributions.json is not as it was written"):
        read_trace(tmp_path / "trace")
    (tmp_path / "trace" / MANIFEST).write_text("{}")
    with pytest.raises(UsageError, match="is not a manifest of a trace"):
        read_trace(tmp_path / "trace")


def test_nothing_to_keep() -> None:
    with pytest.raises(UsageError, match="no records; markers of transactions are not records"):
        parts_of(new_statistics(), "topic")
    with pytest.raises(UsageError, match="none of the 1 records has a time"):
        parts_of(observed(batch(0, [record(-1_790_000_000_001)])), "topic")
