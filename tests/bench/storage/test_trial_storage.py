"""A trial's storage: what is made before it, held while it runs, looked at and given back after."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.storage import emulated_hdd, page_cache
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.control_groups import Hierarchies
from highwater.bench.storage.trial_storage import TrialStorage
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect
from tests.bench.fakes import MINIMAL


def workload(text: str = "") -> Workload:
    return specify(parse_document(MINIMAL + text, "w.yaml"), Path("w.yaml")).cells[0].workload


@pytest.fixture
def areas(tmp_path: Path) -> StorageAreas:
    areas = StorageAreas()
    areas.add("temporary", tmp_path, 0)
    return areas


def test_the_log_is_looked_at_and_its_space_given_back(areas: StorageAreas, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[Path] = []

    def drop(directory: Path) -> str:
        dropped.append(directory)
        return "dropped"

    monkeypatch.setattr(page_cache, "drop_all", drop)
    with TrialStorage(workload(), "001-base", areas, collect()) as storage:
        (directory,) = storage.directories
        assert dropped == [directory]
        assert storage.drop == "dropped"
        (directory / "topic-0").mkdir()
        (directory / "topic-0/0.log").write_bytes(bytes(5000))
        log = storage.look(["topic"])
        assert log is not None
        assert log.log_bytes == 5000
    assert not directory.exists()


def test_caches_are_kept_when_that_is_asked(areas: StorageAreas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "drop_all", lambda _: "dropped")
    with TrialStorage(workload("storage: {drop_caches: never}\n"), "001-base", areas, collect()) as storage:
        assert storage.drop == "kept"


def test_what_cannot_be_dropped_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(page_cache, "_DROP_CACHES", tmp_path / "missing" / "drop_caches")
    assert page_cache.drop_all(tmp_path) == "not_permitted"
    monkeypatch.setattr(page_cache, "_DROP_CACHES", tmp_path / "drop_caches")
    assert page_cache.drop_all(tmp_path) == "dropped"
    assert (tmp_path / "drop_caches").read_text() == "1"


def test_an_external_systems_storage_is_nothing_of_ours(areas: StorageAreas) -> None:
    text = "system: {kind: external, bootstrap_servers: 'host:1'}\n"
    with TrialStorage(workload(text), "001-base", areas, collect()) as storage:
        assert (storage.directories, storage.target.name, storage.drop) == ([], "external", "kept")
        assert storage.look(["topic"]) is None


def test_a_limit_that_cannot_be_set_leaves_no_directory(areas: StorageAreas, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = collect()
    nowhere = Hierarchies(facts.files, None, None, None)
    monkeypatch.setattr("highwater.bench.storage.trial_storage.hierarchies", lambda _: nowhere)
    storage = TrialStorage(workload("storage: {cache_limit: 64MiB}\n"), "001-base", areas, facts)
    with pytest.raises(UsageError, match=r"has no memory control group"):
        storage.__enter__()
    assert not storage.directories[0].exists()


def test_an_emulated_disk_that_is_not_slow_stops_the_run(areas: StorageAreas, monkeypatch: pytest.MonkeyPatch) -> None:
    def complain(*_: object) -> None:
        raise UsageError("the emulated disk test has lost its limits")

    monkeypatch.setattr(emulated_hdd, "require_ready", complain)
    with pytest.raises(UsageError, match="has lost its limits"):
        TrialStorage(workload(), "001-base", areas, collect())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("storage: {cache_limit: 64}\n", r"storage\.cache_limit: 64 is not a size with its unit"),
        ("storage: {cache_limit: 1KiB}\n", r"storage\.cache_limit"),
        ("storage: {drop_caches: always}\n", r"storage\.drop_caches"),
        (
            "system: {kind: external, bootstrap_servers: 'host:1'}\nstorage: {cache_limit: 64MiB}\n",
            r"storage\.cache_limit: cannot be set for an external system; remove it$",
        ),
    ],
)
def test_mistakes_in_the_workload_file(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        workload(text)
    assert "\n" not in str(caught.value)


def test_the_limit_may_be_an_axis() -> None:
    text = MINIMAL + "matrix: {storage.cache_limit: [64MiB, 1GiB]}\n"
    cells = specify(parse_document(text, "w.yaml"), Path("w.yaml")).cells
    assert [cell.workload.storage.cache_limit_bytes for cell in cells] == [64 << 20, 1 << 30]
