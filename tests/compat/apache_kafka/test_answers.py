"""Our broker answers a thousand requests as Apache Kafka 3.9 did, but where a reason is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.apache_kafka.answers_differ import (
    ANSWERS,
    DIFFERENCES,
    UNSORTED,
    differences,
    news,
    of_ours,
    sorted_differences,
    text_of,
)


@pytest.mark.clients
def test_our_answers_are_kafkas_or_differ_for_a_reason(tmp_path: Path) -> None:
    assert news(of_ours(tmp_path)) == []


def test_each_difference_has_a_reason() -> None:
    reasons = sorted_differences(DIFFERENCES.read_text("utf-8"))
    assert [line for line, reason in reasons.items() if not reason or reason == UNSORTED] == []


def test_what_differs_is_kept_with_its_reason() -> None:
    kafkas = "# A\na v0-2 x y => (b=1 c=[])\na v3 x y => (b=1 c=[] d=<m3>)\na v3 z => hangs up\nsame v0 => 1\n"
    found = differences(kafkas, "a v0 x y => (b=2 c=[])\na v1-3 x y => (b=2 c=[1] d=<m4>)\nsame v0 => 1\n")
    assert found == [
        "a x y v0-0: b=1 -> b=2",
        "a x y v1-2: b=1 -> b=2; nothing -> 1; nothing -> d=<m>",
        "a x y v3-3: b=1 -> b=2; nothing -> 1",
        "a z v3-3: hangs up -> not asked",
    ]
    reasons = dict(zip(found, ("two", "two", "one", "two"), strict=True))
    assert sorted_differences(text_of(reasons)) == reasons


def test_a_new_difference_and_one_that_is_gone_are_named() -> None:
    kafkas = ANSWERS.read_text("utf-8")
    gone = len(sorted_differences(DIFFERENCES.read_text("utf-8")))
    told = news(kafkas.replace("error_code=none", "error_code=nobody", 1))
    assert len([each for each in told if each.startswith("not recorded: ")]) == 1
    assert len([each for each in told if each.startswith("recorded, and is no more: ")]) == gone
