"""The answer's picture in characters: within the terminal, readable without colour and without Unicode."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.bench.display.evidence_text import evidence_lines
from highwater.common.plain_letters import PLAIN
from highwater.results.analysis.evidence import Dot, Evidence, EvidenceRow, Limit

BEST = EvidenceRow("compression lz4", [Dot(4.0, "usable"), Dot(6.0, "usable")], 5.0, (4.0, 6.0), "5 ms", "best", "best")
LOSS = EvidenceRow(
    "compression zstd", [Dot(8.0, "usable"), Dot(12.0, "lost")], 8.0, None, "8 ms", "3 lost; best is 38 % lower", "bad"
)
EVIDENCE = Evidence("Produce latency p99, lower is better", "ms", [BEST, LOSS], [Limit("objective <10ms", 10.0)])


def drawn(evidence: Evidence, width: int) -> list[str]:
    return [line.plain for line in evidence_lines(evidence, width)]


def test_dots_interval_median_loss_and_limit_stand_on_one_axis() -> None:
    title, best, loss, axis, *legend = drawn(EVIDENCE, 80)
    assert title == "Produce latency p99, lower is better"
    assert best.split()[:2] == ["compression", "lz4"]
    assert best.endswith("5 ms  best")
    assert best.index("●") < best.index("┃") < best.rindex("●") < best.index("┊")
    assert best.index("┊") == loss.index("┊"), "the limit is one line"
    assert loss.index("┊") < loss.index("✕")
    assert loss.endswith("8 ms  3 lost; best is 38 % lower")
    assert axis.split() == ["4", "ms", "12", "ms"]
    assert "✕ trial that lost or damaged records" in " ".join(legend)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(EVIDENCE, width))) <= width


def test_a_narrow_terminal_has_the_words_above_the_axis() -> None:
    lines = drawn(EVIDENCE, 40)
    assert lines[1] == "compression lz4  5 ms  best"
    assert set(lines[2]) <= set("● ─├┤┃┊")


def test_what_is_not_told_apart_overlaps_visibly() -> None:
    rows = [replace(row, state="open", note="not decided") for row in (BEST, LOSS)]
    first, second = drawn(replace(EVIDENCE, rows=rows, overlap=(4.0, 8.0)), 80)[1:3]
    assert "░" in first
    assert "░" in second


def test_one_value_is_drawn() -> None:
    alone = replace(BEST, dots=[Dot(5.0, "usable")], interval=None)
    assert "┃" in drawn(Evidence("p99", "ms", [alone]), 80)[1]


def test_every_mark_has_a_plain_letter() -> None:
    text = "".join(drawn(replace(EVIDENCE, overlap=(4.0, 8.0)), 80))
    assert {letter for letter in text if not letter.isascii()} <= PLAIN.keys()
