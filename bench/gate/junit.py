"""The outcome of the gate as JUnit XML: a test case for each gated metric."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from highwater.bench.display.comparison_text import name_of, round_title, row
from highwater.bench.gate.reasoning import describe
from highwater.results.gate import Gate, MetricComparison

_BROKEN: Final = ("invalid", "environment_mismatch", "interrupted")


def junit_xml(gate: Gate) -> str:
    """One suite per round; the first case of the first suite is the outcome of the gate."""
    root = ElementTree.Element("testsuites", name="highwater bench gate")
    outcome = ElementTree.Element("testcase", classname="gate", name="outcome")
    _result(outcome, gate)
    for number, done in enumerate(gate.rounds):
        cases = [outcome] if number == 0 else []
        cases += [_case(item, done.stage, gate) for item in done.metrics]
        _suite(root, round_title(done), cases)
    if not gate.rounds:
        _suite(root, "gate", [outcome])
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, name: str, cases: list[ElementTree.Element]) -> None:
    counts = {kind: str(sum(case.find(kind) is not None for case in cases)) for kind in ("failure", "error", "skipped")}
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=counts["failure"],
        errors=counts["error"],
        skipped=counts["skipped"],
    )
    suite.extend(cases)


def _case(item: MetricComparison, stage: str, gate: Gate) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"gate.{stage}", name=name_of(item))
    if not item.gated:
        ElementTree.SubElement(case, "skipped", message="tracked: shown and not gated")
    elif item.verdict == "worse" and gate.state == "regression":
        ElementTree.SubElement(case, "failure", type="regression", message=describe(item))
    ElementTree.SubElement(case, "system-out").text = "; ".join(row(item)[1:])
    return case


def _result(case: ElementTree.Element, gate: Gate) -> None:
    if gate.exit_code:
        kind = "error" if gate.state in _BROKEN else "failure"
        ElementTree.SubElement(case, kind, type=gate.state, message=_clean(gate.text))
    ElementTree.SubElement(case, "system-out").text = _clean(gate.text)


def _clean(text: str) -> str:
    """Remove characters that XML 1.0 does not allow, such as the colour codes in a broker's output."""
    return "".join(character if character >= " " else " " for character in text)
