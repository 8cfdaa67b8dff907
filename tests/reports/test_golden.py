"""The whole page of the sample run, byte for byte.

After a wanted change of the page, look at it in a browser, then write the golden file anew and read its diff:

    python -m tests.reports.test_golden
"""

from __future__ import annotations

import re
import tempfile
from itertools import zip_longest
from pathlib import Path

from highwater.reports.page import render, run_document
from highwater.results.reader import RunResult
from tests.reports.sample_run import golden_sample, write_sample

GOLDEN = Path(__file__).parent / "golden" / "report.html"


def comparable(page: str) -> str:
    """Without the place of the run and checksums: a field of a model changes these, and so does the build of zlib."""
    page = re.sub(r"--resume [^<]+<", "--resume DIR<", page)
    return re.sub(r"[0-9a-f]{64}(?=  \S+\n)", "0" * 64, page)


def test_the_page_is_the_golden_one(golden_page: str) -> None:
    pairs = zip_longest(GOLDEN.read_text("utf-8").splitlines(), comparable(golden_page).splitlines())
    for number, (wanted, got) in enumerate(pairs, start=1):
        assert got == wanted, f"line {number} of the page differs; see this file's docstring"


def test_same_directory_same_bytes(golden_run: Path, golden_page: str) -> None:
    assert render(run_document(RunResult(golden_run))) == golden_page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        page = render(run_document(RunResult(write_sample(Path(scratch) / "run", golden_sample()))))
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(comparable(page), "utf-8")
