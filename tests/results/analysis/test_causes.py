from __future__ import annotations

import pytest

from highwater.results.analysis.causes import causes, limit_text, value_of_reason_text
from highwater.results.models import Reason, Verdict


def reason(check: str, value: float | str, limit: float | str) -> Reason:
    return Reason(check=check, value=value, limit=limit, text="")


@pytest.mark.parametrize(
    ("check", "values", "limit", "text"),
    [
        ("host.cpu_ratio", [0.96, 0.97, 0.998], 0.95, "3 trials: host CPU above 95 %; median 97 %"),
        ("generator.send_delay_p99_ns", [6_025_215], 5_000_000, "1 trial: records left late: p99 above 5 ms; 6.03 ms"),
        ("load.achieved_ratio", [0.9], 0.995, "1 trial: less than 99.5 % of the offered load was acknowledged; 90 %"),
        ("canary.disk", [19.5], 2.0, "1 trial: disk slower than in other blocks, by more than 2×; 19.5×"),
        ("generator.oversubscribed", [9], "cores of the host", "1 trial: more load tasks than cores"),
        ("generator_cpu", [0.97], 0.85, "1 trial: generator_cpu beyond 0.85"),
    ],
)
def test_like_causes_are_one_line_in_units(check: str, values: list[float], limit: float | str, text: str) -> None:
    verdicts = [Verdict(state="invalid", reasons=[reason(check, value, limit)]) for value in values]
    assert [cause.text for cause in causes(verdicts)] == [text]


def test_the_most_frequent_cause_is_first() -> None:
    busy, late = reason("host.cpu_ratio", 1.0, 0.95), reason("generator.send_delay_p99_ns", 7e6, 5e6)
    verdicts = [Verdict(state="invalid", reasons=[late, busy]), Verdict(state="inconclusive", reasons=[busy])]
    assert [cause.check for cause in causes(verdicts)] == ["host.cpu_ratio", "generator.send_delay_p99_ns"]


def test_no_figure_is_in_nanoseconds() -> None:
    late = reason("generator.send_delay_p99_ns", 6_025_215, 5_000_000)
    assert (value_of_reason_text(late), limit_text(late)) == ("6.03 ms", "5 ms")
