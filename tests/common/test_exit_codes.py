"""Exit codes: one number has one meaning, and the page of them has each."""

from __future__ import annotations

import re
from pathlib import Path

from highwater.common import exit_codes

PAGE = Path(__file__).parents[2] / "docs" / "exit-codes.md"
ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def test_the_page_has_every_code_and_no_number_but_one_has_two_meanings() -> None:
    codes = {name: code for name, code in vars(exit_codes).items() if name.startswith("EXIT_")}
    assert [int(code) for code in ROW.findall(PAGE.read_text("utf-8"))] == sorted(set(codes.values()))
    assert codes.pop("EXIT_STEP_FAILED") == codes["EXIT_ENVIRONMENT"]
    assert len(set(codes.values())) == len(codes)
