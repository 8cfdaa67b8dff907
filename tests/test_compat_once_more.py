"""The table of all compat suites: a case that fails is run once more where the caller asks for it, and is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat import __main__ as compat

RUN = """#!/bin/sh
OUT=$HIGHWATER_COMPAT_OUTCOMES
cd "$(dirname "$0")"
echo "$*" >> calls
[ "$1" = --quick ] && set -- steady shaky slow_case
for case in "$@"; do
  passed=true
  if [ $case = shaky ] && [ "$(wc -l < calls)" -lt "$(cat passes_in_run)" ]; then passed=false; fi
  printf '{"case": "%s", "passed": %s, "seconds": 1, "message": "lost"}\\n' $case $passed >> "$OUT"
done
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "run").write_text(RUN)
    (folder / "run").chmod(0o755)
    (folder / "cases.allow").write_text("steady\nshaky\nslow_case slow\n")
    (folder / "passes_in_run").write_text("2")
    monkeypatch.setattr(compat, "HERE", tmp_path)
    return folder


def test_a_case_that_passes_the_second_time_passes_and_is_named(
    suite: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results/second"
    assert compat.main(["--quick", f"--once-more={file}", "others"]) == 0
    assert (suite / "calls").read_text().splitlines() == ["--quick", "shaky"]
    assert file.read_text() == "passed only the second time, mend it: shaky of others (the first failure is above)\n"
    assert "fail" not in capfd.readouterr().out


def test_a_case_that_fails_twice_fails_with_its_message(
    suite: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (suite / "passes_in_run").write_text("3")
    assert compat.main(["--quick", f"--once-more={tmp_path / 'second'}", "others"]) == 1
    assert (tmp_path / "second").read_text() == ""
    assert "fail: shaky: lost" in capfd.readouterr().out


def test_without_the_option_nothing_is_run_twice(suite: Path) -> None:
    assert compat.main(["--quick", "others"]) == 1
    assert (suite / "calls").read_text().splitlines() == ["--quick"]


def test_many_failures_are_no_accident(suite: Path, tmp_path: Path) -> None:
    (suite / "cases.allow").write_text("shaky\none\ntwo\nthree\n")
    assert compat.main(["--quick", f"--once-more={tmp_path / 'second'}", "others"]) == 1
    assert (suite / "calls").read_text().splitlines() == ["--quick"]
