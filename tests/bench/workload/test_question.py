from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import load_specification
from highwater.common.errors import UsageError

FILE = """\
schema: bench.workload/1
name: w
records: {size: 1KiB}
load: {rate: 1k/s}
phases: {measure: 5s}
"""


def workload_with(tmp_path: Path, lines: str) -> Workload:
    path = tmp_path / "w.yaml"
    path.write_text(FILE + lines)
    return load_specification(path).workload


def test_one_name_or_several(tmp_path: Path) -> None:
    one = workload_with(tmp_path, "answer: {best: produce.p99.9, lost: false}\n").answer
    assert one is not None
    assert (one.best, one.lost) == (["produce.p999"], False)
    several = workload_with(tmp_path, "answer: {best: [produce.p50, system.cpu_ratio]}\n")
    assert several.answer is not None
    assert several.answer.best == ["produce.p50", "system.cpu_ratio"]
    assert Workload.model_validate(several.as_document()).answer == several.answer
    assert workload_with(tmp_path, "").answer is None


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("answer: {best: produce.p98}", r'produce.p98 is not a metric; did you mean "produce.p99'),
        ("answer: {best: [produce.p50, produce.offered_per_s]}", "no value of produce.offered_per_s is better"),
        ("answer: {best: delivery.lost}", "delivery.lost is 0 as a rule; lost: true reports what happened to records"),
        ("answer: {bets: produce.p50}", 'answer.bets: unknown key; did you mean "best"?'),
        ("answer: {best: recovery.no_ack_s}", r"answer.best\[0\]: recovery.no_ack_s needs faults"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, lines: Any, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        workload_with(tmp_path, f"{lines}\n")
