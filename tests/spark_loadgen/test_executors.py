"""What executors tell of themselves before a load, without any."""

from __future__ import annotations

import pytest

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.launcher import common_versions

ONE = {"python": "3.11.2", "librdkafka": "2.6.1"}


def test_executors_of_one_version_tell_it() -> None:
    assert common_versions([("a", ONE), ("b", dict(ONE))], "spark://m:7077") == ONE


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            ONE | {"librdkafka": "2.5.0"},
            r"differ: librdkafka is 2\.6\.1 on a and 2\.5\.0 on b; .*same versions on all",
        ),
        ("No module named 'numpy'", r"lack a package: No module named 'numpy' on b; install"),
    ],
)
def test_executors_that_differ_or_lack_something_are_refused(other: dict[str, str] | str, words: str) -> None:
    with pytest.raises(LoadSetupError, match=rf"the executors of spark://m:7077 {words}"):
        common_versions([("a", ONE), ("b", other), ("b", ONE)], "spark://m:7077")
