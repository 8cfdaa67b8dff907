"""What was announced against what was done: by the same task, or by the one that stands for it."""

from __future__ import annotations

from tests.lab.story.announcing import not_announced, not_done


def test_what_was_done_and_not_said_is_told_with_its_host() -> None:
    said = {("one", "spark : Write the units")}
    done = {("one", "spark : Write the units"), ("two", "spark : Write the units"), ("one", "tuning : Surprise")}
    assert not_announced(said, done) == [("one", "tuning : Surprise"), ("two", "spark : Write the units")]
    assert not_done(said, done) == []


def test_what_was_said_and_not_done_is_told() -> None:
    said = {("one", "spark : Write the units"), ("one", "spark : Show in check mode what would start")}
    assert not_done(said, {("one", "spark : Write the units")}) == [
        ("one", "spark : Show in check mode what would start")
    ]


def test_a_start_stands_for_what_was_said_of_it() -> None:
    said = {("one", "reference_kafka : Show in check mode what would start")}
    done = {("one", "reference_kafka : Start the brokers that do not run")}
    assert (not_announced(said, done), not_done(said, done)) == ([], [])
    assert not_announced(said, {("one", "zookeeper : Start those that may start together")}) != []


def test_what_check_mode_cannot_reach_needs_its_announcement() -> None:
    done = {("one", "spark : Create the user")}
    assert not_announced({("one", "spark : Create the group")}, done) == []
    assert not_announced({("two", "spark : Create the group")}, done) == [("one", "spark : Create the user")]
