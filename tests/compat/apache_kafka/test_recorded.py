"""The tables of Kafka's cases: each case has its row, and each row says something that a broker decided."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compat.apache_kafka import authorizer_integration, end_to_end_authorization, recorded_outcomes
from tests.compat.apache_kafka.authorizer_world import TellingProducer, sent
from tests.compat.apache_kafka.recorded_outcomes import Suite, differences, main_of

SUITES = (authorizer_integration.SUITE, end_to_end_authorization.SUITE)
# What librdkafka says by itself: that it waited in vain, was used wrongly, lost a connection. But _PURGE_QUEUE is for
# records that a refusal empties from its queue.
OF_THE_CLIENT = re.compile(r"\b_(?!AUTHENTICATION|PURGE_QUEUE)[A-Z_]+\b|did not come to its end|hangs up")
SAYS_SOMETHING = re.compile(
    r"AUTHORIZATION_FAILED|_AUTHENTICATION|sent|record of|\bt\b|none|committed|done|True|\d", re.I
)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.table.stem)
def test_each_case_has_a_row_that_says_something(suite: Suite) -> None:
    recorded = suite.recorded()
    assert list(recorded) == list(suite.cases)
    assert [name for name, outcome in recorded.items() if OF_THE_CLIENT.search(outcome)] == []
    assert [name for name, outcome in recorded.items() if not SAYS_SOMETHING.search(outcome)] == []


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    table = tmp_path / "table.txt"
    table.write_text("a: 1 leaves {}\nb: 2 leaves {}\n")

    def shows(outcomes: dict[str, str]) -> recorded_outcomes.Runner:
        return lambda _, names: {name: outcomes[name] for name in names}

    same = {"a": "1 leaves {}", "b": "2 leaves {}"}
    return Suite(table, ("a", "b"), shows(same), shows(same | {"b": "3 leaves {}"}))


def test_who_shows_something_else_is_named(suite: Suite, tmp_path: Path) -> None:
    assert differences(suite, tmp_path, suite.cases) == ["b: ours 3 leaves {}, recorded 2 leaves {}"]


def test_a_broker_of_kafka_that_shows_something_else_is_named(suite: Suite, tmp_path: Path) -> None:
    """Although ours shows the same."""
    other = suite._replace(on_kafka=suite.on_ours)
    assert [told.split()[:2] for told in differences(other, tmp_path, ("b",))] == [["b:", "Kafka"], ["b:", "ours"]]


def test_cases_run_on_ours_alone(suite: Suite, tmp_path: Path) -> None:
    def never(directory: Path, names: object) -> dict[str, str]:
        raise AssertionError((directory, names))

    alone = suite._replace(on_kafka=never)
    assert differences(alone, tmp_path, ("a",), kafka=False) == []
    assert main_of(alone, ["--ours", "a"]) == 0
    assert main_of(alone, ["--ours"]) == 1


def test_what_is_recorded_keeps_the_other_rows(suite: Suite) -> None:
    assert main_of(suite._replace(on_kafka=suite.on_ours), ["--record", "b"]) == 0
    assert suite.recorded() == {"a": "1 leaves {}", "b": "3 leaves {}"}


def test_a_record_whose_report_is_lost_ended_with_its_producer() -> None:
    class Ended(TellingProducer):
        def __init__(self) -> None:
            super().__init__({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
            self.fatal = "Cluster authorization failed"

        def produce(self, *_: object, **__: object) -> None:
            pass

    assert sent(Ended(), "t") == ["ended by Cluster authorization failed"]


def test_an_unknown_case_is_one_line(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_of(suite, ["--ours", "c"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no such option or case: c; there are --record, --ours, ")
