"""Every workload file of refused.txt is refused with the line that stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench.workload.test_specification import complaint, document

_TEXT = Path(__file__).with_name("refused.txt").read_text("utf-8")
CASES = re.findall(r"((?:^(?!#|=>).+\n)+)=> (.+)", _TEXT, re.MULTILINE)


@pytest.mark.parametrize(("sections", "line"), CASES, ids=[line for _, line in CASES])
def test_a_file_that_cannot_be_is_refused_in_one_line(sections: str, line: str) -> None:
    chosen: dict[str, str | None] = {}
    for section in sections.splitlines():
        left_out = section.startswith("- ")
        name, _, value = section.removeprefix("- ").partition(":")
        chosen[name] = None if left_out else value.strip()
    assert complaint(document(**chosen)) == line


def test_each_case_is_read() -> None:
    assert len(CASES) == len(re.findall("^=> ", _TEXT, re.MULTILINE))
