"""The page of proofs: a table of verdicts, then figures, and nothing of it breaks a table."""

from __future__ import annotations

from dataclasses import replace

from highwater.bench.prove.page import knob_change_text, markdown, row
from tests.tuning.test_proofs import effect, proof


def test_a_figure_in_a_row() -> None:
    assert row(effect()) == ("produce.p99", "2 ms", "1.76 ms", "−12 %", "−15 to −9 %", "4.1 %", "none seen")
    assert row(effect("unknown", ratio=None))[3:5] == ("–", "–")


def test_the_page_has_every_verdict_and_how_to_repeat_it() -> None:
    bars = replace(proof("vm.dirty_bytes", verdict="keep"), text="better: a | b")
    text = markdown([proof(), bars], "highwater tune prove vm.swappiness", "a CPU, 2 CPUs")
    assert (
        "| vm.swappiness 60 → 1 | **no measurable effect here** | nothing changed beyond noise | prove-writes |" in text
    )
    assert "| better: a \\| b |" in text
    assert "| **produce.p99** |" in text
    assert "| produce.p99 |" in text
    assert "Measured on a CPU, 2 CPUs; environment abc. Again:\n\n```\nhighwater tune prove vm.swappiness\n```" in text
    assert knob_change_text(bars) == "vm.dirty_bytes 60 → 1"
