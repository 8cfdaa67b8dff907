"""The sample run and its page, made once: every test only reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.reports.page import render, run_document
from highwater.results.reader import RunResult
from tests.reports.parsing import Document, parse
from tests.reports.sample_run import golden_sample, write_sample


@pytest.fixture(scope="session")
def golden_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four cells, three trials each; one trial is invalid and one was interrupted."""
    return write_sample(tmp_path_factory.mktemp("runs") / "golden", golden_sample())


@pytest.fixture(scope="session")
def golden_page(golden_run: Path) -> str:
    return render(run_document(RunResult(golden_run)))


@pytest.fixture(scope="session")
def golden_document(golden_page: str) -> Document:
    return parse(golden_page)
