"""What a person may say about the workload."""

from __future__ import annotations

import pytest

from tuning.errors import TuningError
from tuning.workload import Workload, parse_workload


def test_what_is_not_said_keeps_its_default() -> None:
    workload = parse_workload({"partitions": 5000, "rtt": "30ms", "data_dirs": ["/d1", "/d2"], "link": None})
    assert workload == Workload(partitions=5000, rtt_ms=30.0, data_dirs=("/d1", "/d2"))


def test_derived_figures() -> None:
    assert Workload().bandwidth_delay_bytes == 1_250_000
    assert Workload(partitions=10, partition_bytes=1, segment_bytes=2**30).segments == 10
    assert Workload(partitions=10, partition_bytes=2**30 + 1, segment_bytes=2**30).segments == 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partition": "5"}, "unknown workload input 'partition'; did you mean partitions?"),
        ({"rtt": "3"}, "rtt: '3' is not a duration"),
        ({"data_dirs": "/data"}, "data_dirs must be a list"),
        ({"data_dirs": []}, "data_dirs must be a list"),
        ({"data_dirs": ["data"]}, "data directory 'data' must be an absolute path"),
    ],
)
def test_bad_input_names_the_thing(given: dict[str, object], message: str) -> None:
    with pytest.raises(TuningError) as caught:
        parse_workload(given)
    assert message in str(caught.value)
