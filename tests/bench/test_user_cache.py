"""What is fetched appears whole or not at all, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.user_cache import cache_directory, cached, need, run_step
from highwater.common.errors import UsageError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def make(directory: Path) -> None:
    (directory / "thing").write_text("made")


def test_a_thing_is_made_once() -> None:
    first = cached("thing-1", "a thing", make)
    assert (first / "thing").read_text() == "made"

    def never(_: Path) -> None:
        raise AssertionError("it was there")

    assert cached("thing-1", "a thing", never) == first


def test_what_fails_half_way_leaves_nothing_and_can_be_tried_again() -> None:
    def fail(directory: Path) -> None:
        make(directory)
        raise UsageError("no network")

    with pytest.raises(UsageError):
        cached("thing-1", "a thing", fail)
    assert not (cache_directory() / "thing-1").exists()
    assert (cached("thing-1", "a thing", make) / "thing").exists()


def test_a_missing_program_is_told_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"no frobnicate here, which frobs: apt-get install -y frob-tools"):
        need("frobnicate", "frob-tools", "frobs")


def test_a_package_that_is_not_the_pinned_one_is_named(tmp_path: Path) -> None:
    said = (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated\n"
        "    thing==1 from https://index/thing-1.whl#sha256=ab (from -r otava.txt (line 2)):\n"
        "        Expected sha256 cd\n             Got        ab\n"
    )
    (tmp_path / "said").write_text(said)
    named = r"another file than is pinned, thing==1 from https://index/thing-1\.whl.*: find out who changed it$"
    with pytest.raises(UsageError, match=named):
        run_step(["sh", "-c", "cat said; exit 1"], tmp_path)


def test_a_failing_step_tells_its_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sh -c .* failed: error: no such header"):
        run_step(["sh", "-c", "echo building; echo error: no such header; echo bye; exit 1"], tmp_path)
