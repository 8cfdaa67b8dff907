"""The man pages of a release: one for each command, without a warning of either formatter."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.release.man_pages import write_man_pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man")
    write_man_pages(directory, "2026-01-31")
    return directory


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("mandoc", ("mandoc", "-T", "lint", "-W", "style")),
        ("groff-base", ("groff", "-k", "-man", "-ww", "-z", "-T", "utf8")),
    ],
)
def test_formatters_have_nothing_to_say(pages: Path, package: str, command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here: apt-get install -y {package}")
    files = sorted(pages.iterdir())
    assert len(files) > 100
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_a_page_has_the_options_and_what_its_exit_codes_mean(pages: Path) -> None:
    page = (pages / "highwater-broker-start.1").read_text("utf-8")
    assert page.startswith(".TH HIGHWATER-BROKER-START 1 2026-01-31 ")
    assert "\n.B \\-\\-log\\-dir <path>\nDirectory of the log; created if missing. Also: log.dirs.\n" in page
    assert "\n.SH EXIT STATUS\n.TP\n.B 0\nstopped cleanly\n" in page
    assert "\n.B 2\nalso a refusal with nothing changed" in (pages / "highwater-tune-apply.1").read_text("utf-8")
    assert "\n.B 130\n" in (pages / "highwater.1").read_text("utf-8")
