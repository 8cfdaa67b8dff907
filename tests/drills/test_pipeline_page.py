"""The page of results says what was drilled, whether it is a proof, and what was lost or doubled."""

from __future__ import annotations

from pathlib import Path

from highwater.pipeline.drill.kinds import KINDS, SQLITE
from highwater.pipeline.drill.model import RoundResult
from highwater.pipeline.drill.results import Results
from tests.drills.pipeline_page import ROUNDS_WANTED, page, read

MOMENTS = (*(point.value for point in KINDS[SQLITE].points), "random")


def drilled(folder: Path, rounds: int, *, twice: int = 0, without: str = "", cluster: str = "highwater") -> Path:
    results = Results(folder, {"sink": SQLITE, "cluster": cluster, "without": without})
    for number in range(rounds):
        moment = MOMENTS[number % len(MOMENTS)]
        results.add(RoundResult(number + 1, moment, "driver", True, number % 2, 1, 160, 0, twice, 0, 1.0))
    return folder


def test_few_rounds_are_no_proof_and_folders_add_up(tmp_path: Path) -> None:
    text = page(read([drilled(tmp_path / "a", 3), drilled(tmp_path / "b", 4)]), "today")
    assert "| sqlite | ours | 7 | 0 | 3 | 0 | 0 | 0 |" in text
    assert "**Over all brokers together, 0 of 1 sinks have that; on each broker by itself, 0 of 1.\n" in text


def test_enough_rounds_are_one(tmp_path: Path) -> None:
    found = read([drilled(tmp_path, ROUNDS_WANTED)])
    assert [each.is_proven for each in found] == [True]
    text = page(found, "today")
    assert "Over all brokers together, 1 of 1 sinks have that; on each broker by itself, 1 of 1." in text
    assert "no proof" not in text


def test_the_rounds_on_all_brokers_add_up(tmp_path: Path) -> None:
    drilled(tmp_path / "ours", ROUNDS_WANTED // 2)
    drilled(tmp_path / "theirs", ROUNDS_WANTED // 2, cluster="4")
    text = page(read([tmp_path]), "today")
    assert f"| sqlite | all brokers | {ROUNDS_WANTED} |" in text
    assert "Over all brokers together, 1 of 1 sinks have that; on each broker by itself, 0 of 2." in text
    assert "no proof" in text


def test_a_doubled_record_is_the_headline(tmp_path: Path) -> None:
    text = page(read([drilled(tmp_path, ROUNDS_WANTED, twice=1)]), "today")
    assert "**Records were lost, doubled or seen in part: sqlite on ours.**" in text
    assert "Nothing was lost" not in text


def test_a_control_that_found_nothing_shows(tmp_path: Path) -> None:
    drilled(tmp_path / "a", 2, without="marker")
    drilled(tmp_path / "b", 3, without="row-lock", twice=5)
    text = page(read([tmp_path]), "today")
    assert "| sqlite | `marker` | – | **nothing** |" in text
    assert "| sqlite | `row-lock` | 3 | 5 twice |" in text
