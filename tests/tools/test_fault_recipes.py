"""Cells of the tables of docs/faults.md: how they are worded, and how they come into the page."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.npm_packages import locked
from tools.fault_recipes.__main__ import CLIENTS, HERE, RECIPES, ROOT, SENT, fill, read_cell, written_cell


@pytest.mark.parametrize(
    ("found", "times", "cell"),
    [
        ({"delivered": 10, "failed": 0}, 1, "once, 0.3 s"),
        ({"delivered": 10, "failed": 0}, 2, "**twice**, 0.3 s"),
        ({"delivered": 10, "failed": 0}, 0, "**lost**, 0.3 s"),
        ({"delivered": 0, "failed": 10}, 1, "**10 failed** (10 × `Late`) after 0.3 s; in the log: once"),
        ({"delivered": 0, "failed": 10}, 0, "**10 failed** (10 × `Late`) after 0.3 s; in the log: none"),
        ({"delivered": 0, "failed": 0}, 3, "**10 undecided** after 0.3 s; in the log: **3 times**"),
    ],
)
def test_a_producer_is_judged_by_the_log(found: dict[str, object], times: int, cell: str) -> None:
    found |= {"seconds": 0.3, "errors": ["Late"] * 10}
    assert written_cell(found, Counter(SENT * times), False) == cell


def test_records_that_are_not_all_in_the_log_equally_often_are_counted() -> None:
    found = {"delivered": 10, "failed": 0, "seconds": 1, "errors": []}
    assert written_cell(found, Counter(SENT[:7] + SENT[:3]), False) == "3 **twice**, 4 once, 3 **lost**, 1 s"


def test_a_consumer_is_judged_by_what_it_got() -> None:
    assert read_cell({"values": [], "first": None, "errors": []}) == "**no record**"
    found = {"values": [*SENT[:9], "record-\0"], "first": 2, "errors": ["Bad", "Bad"]}
    assert read_cell(found) == "9 records; **1 damaged**, the first after 2 s; 2 × `Bad`"
    assert read_cell({**found, "values": SENT * 3, "errors": []}) == "10 records, each 3 times, the first after 2 s"


def test_cells_replace_those_of_their_recipe_and_client() -> None:
    page = "| recipe | librdkafka | java |\n|---|---|---|\n| [01 lost](a) | x | y |\n| [02 moved](b) | x | y |\nend\n"
    filled = fill(page, {("01", "java"): "once", ("02", "librdkafka"): "**twice**"})
    assert filled == page.replace("(a) | x | y", "(a) | x | once").replace("(b) | x", "(b) | **twice**")


def test_the_page_has_a_cell_for_each_recipe_and_client() -> None:
    page = (ROOT / "docs/faults.md").read_text("utf-8")
    marks = {(recipe, client): f"{recipe} {client}" for recipe in RECIPES for client in CLIENTS}
    filled = fill(page, marks)
    assert [mark for mark in marks.values() if f"| {mark} |" not in filled] == []


def test_kafkajs_is_pinned() -> None:
    wanted = json.loads((HERE / "package.json").read_text("utf-8"))["dependencies"]
    found = locked(HERE / "package-lock.json")
    assert {name: entry["version"] for name, entry in found.items()} == wanted
    assert all(entry["integrity"].startswith("sha512-") for entry in found.values())
