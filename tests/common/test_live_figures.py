"""The live figures of a run: what a reader sees of a writer that goes on, ends, dies or begins again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.common.live_figures import FILE_NAME, Chart, LiveFigures, LiveLines

CHARTS = [Chart("rate", "Records", "/s", ["acknowledged"])]


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_reader_sees_each_line_once_and_the_last_words_after_the_file_is_gone(tmp_path: Path) -> None:
    clock = Clock()
    writer = LiveFigures(tmp_path, "quick", CHARTS, "again", clock)
    reader = LiveLines(tmp_path)
    assert reader.is_written()
    assert [line["title"] for line in reader.read() or []] == ["quick"]
    writer.say("Trial 1 begins.")
    clock.now_s = 1001.0
    writer.figures({"rate.acknowledged": 4.0, "rate.offered": None}, "4/s")
    writer.finish("done")
    writer.say("nobody hears that")
    assert reader.read() == [
        {"at": 1000.0, "now": "Trial 1 begins."},
        {"at": 1001.0, "now": "4/s", "figures": {"rate.acknowledged": 4.0}},
        {"at": 1001.0, "finished": "done"},
    ]
    assert not (tmp_path / FILE_NAME).exists()
    assert not reader.is_written()


def test_figures_come_once_a_second_and_in_a_long_run_less_often(tmp_path: Path) -> None:
    clock = Clock()
    writer = LiveFigures(tmp_path, "quick", CHARTS, "again", clock)
    for _ in range(40):
        writer.figures({"rate.acknowledged": 1.0}, "1/s")
        clock.now_s += 0.25
    writer.say("x" * (4 << 20))
    for _ in range(8):
        writer.figures({"rate.acknowledged": 2.0}, "2/s")
        clock.now_s += 1.0
    values = [line["figures"]["rate.acknowledged"] for line in LiveLines(tmp_path).read() or [] if "figures" in line]
    assert (values.count(1.0), values.count(2.0)) == (10, 4)


def test_a_line_that_is_not_whole_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text('{"at":1,"now":"a"}\n{"at":2,"no', "utf-8")
    reader = LiveLines(tmp_path)
    assert reader.read() == [{"at": 1, "now": "a"}]
    assert reader.read() == []
    with path.open("a") as file:
        file.write('w":"b"}\n')
    assert reader.read() == [{"at": 2, "now": "b"}]


def test_a_writer_that_was_killed_has_left_its_file_and_a_new_one_begins_anew(tmp_path: Path) -> None:
    program = (
        "import os, signal, pathlib; from highwater.common.live_figures import LiveFigures\n"
        f"LiveFigures(pathlib.Path({str(tmp_path)!r}), 'killed', [], 'again').say('x' * 200)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    reader = LiveLines(tmp_path)
    assert len(reader.read() or []) == 2
    assert not reader.is_written()
    writer = LiveFigures(tmp_path, "again", [], "again")
    assert reader.is_written()
    assert reader.read() is None, "what was read is void"
    assert [line["title"] for line in reader.read() or []] == ["again"]
    writer.finish("done")


def test_where_nothing_can_be_written_the_run_goes_on(tmp_path: Path) -> None:
    writer = LiveFigures(tmp_path / "missing", "quick", CHARTS, "again")
    writer.say("unheard")
    writer.finish("done")
    with pytest.raises(FileNotFoundError):
        LiveLines(tmp_path / "missing")
