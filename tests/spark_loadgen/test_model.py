from __future__ import annotations

from typing import Any

import pytest

from spark_loadgen import FilePayload, GeneratedPayload, LoadPlan, LoadSetupError

SOUND: dict[str, Any] = {
    "bootstrap_servers": "b:1",
    "topic": "t",
    "partitions": 2,
    "producers": 1,
    "consumers": 1,
    "rate_per_s": 10.0,
    "warmup_s": 1,
    "measure_s": 1,
    "drain_max_s": 1,
    "record_bytes": 100,
    "payload": GeneratedPayload(0.5),
    "seed": 1,
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"producers": 0}, "producers is 0"),
        ({"consumers": 3}, "3 consumers cannot share 2 partitions"),
        ({"rate_per_s": 0.0}, "rate of 0/s"),
        ({"rate_per_s": float("nan")}, "rate of nan/s"),
        ({"measure_s": 0}, "measure_s is 0"),
        ({"drain_max_s": 0}, "drain_max_s is 0"),
        ({"record_bytes": 23}, "stamp of 24 bytes"),
        ({"record_bytes": None}, "needs record_bytes"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(LoadSetupError, match=said):
        LoadPlan(**{**SOUND, **changes})


def test_a_share_outside_0_to_1_is_refused() -> None:
    with pytest.raises(LoadSetupError, match=r"1\.5"):
        GeneratedPayload(1.5)


def test_a_file_may_do_without_a_size() -> None:
    assert LoadPlan(**{**SOUND, "payload": FilePayload("f"), "record_bytes": None}).tasks == 2
