"""A JVM starts in no test that is not marked slow, and the seconds of rooms are summed (tests/conftest.py)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from highwater.bench.systems.java import java_for
from tests.broker.zookeeper_server import running_zookeeper
from tests.conftest import seconds_of_rooms


def test_no_jvm_starts_without_the_marker() -> None:
    ran = subprocess.run([java_for("the test"), "-version"], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "has_to_be_marked_slow" in ran.stderr


@pytest.mark.slow
def test_a_jvm_starts_with_the_marker() -> None:
    subprocess.run([java_for("the test"), "-version"], capture_output=True, check=True)


@pytest.fixture
def starter() -> Callable[..., object]:
    return running_zookeeper


@pytest.mark.usefixtures("starter")
def test_a_fixture_that_starts_a_jvm_marks_its_tests(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("slow")


def test_seconds_are_summed_by_room_and_the_longest_comes_first() -> None:
    names = {"tests/test_x.py::test_a": 1.0, "tests/bench/runs/test_y.py::test_b[a/b]": 2.0, "tests/bench/z.py::t": 3.0}
    reports = [
        pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "call", duration=duration_s)
        for name, duration_s in names.items()
    ]
    assert list(seconds_of_rooms(reports).items()) == [("bench", 5.0), ("tests", 1.0)]
