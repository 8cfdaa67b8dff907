"""A JVM starts in no test that is not marked slow (tests/conftest.py)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from highwater.bench.systems.java import java_for
from tests.broker.zookeeper_server import running_zookeeper


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
