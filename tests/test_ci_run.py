"""`.ci/run`: its steps, their order, and the lab beside some of them; programs stand for all it calls."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"
DEADLINE_S = 60.0
# Each says its name and arguments. LAB and FAILS are what the lab does and which step fails; a lab waits for `go`.
PROGRAM = """#!/bin/sh
case "$0 $*" in
  *tests.lab*)
    echo begun >> lab
    echo "the lab of $*" | sed 's/results.*/results/'
    while [ -e .ci ] && ! [ -e go ]; do sleep 0.02; done
    echo ended >> lab
    exit "${LAB:-0}" ;;
esac
step="$(basename "$0") $*"
echo "ran $step"
case "$step" in *"${AT:-SEEDS}"*) touch go ;; esac
case "$step" in *"${FAILS:-nothing fails}"*) exit 3 ;; esac
"""


def prepared(folder: Path) -> dict[str, str]:
    """A folder with the script and the programs; its environment."""
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci")
    for name in (".ci/commit-subjects", ".ci/gate", ".venv/bin/python", "bin/make"):
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def run(folder: Path, **variables: str) -> tuple[int, list[str]]:
    environment = prepared(folder)
    done = subprocess.run(
        [".ci/run"],
        cwd=folder,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    return done.returncode, [line for line in done.stdout.splitlines() if line and not line.startswith("#### ")]


def ran(lines: list[str]) -> list[str]:
    """The first words of each step that ran, in order."""
    return [" ".join(line.removeprefix("ran ").split()[:3]) for line in lines if line.startswith("ran ")]


def test_the_lab_runs_beside_steps_and_its_output_comes_in_one_piece(tmp_path: Path) -> None:
    """It goes on when the suites are there, which are the last step beside it."""
    status, lines = run(tmp_path, AT="apache_kafka")
    assert status == 0, lines
    assert ran(lines) == [
        "commit-subjects",
        "make test ONCE_MORE=.ci/once-more",
        "make test-slow ONCE_MORE=.ci/once-more",
        "make quickstart OUT=results/ci",
        "make bench-micro ARGS=--quiet",
        "make simulate SEEDS=150",
        "make compat SUITES=--quick",
        "python -m tests.drills.pipeline",
        "make release ARGS=--only",
        "make compat SUITES=--quick",
        "gate results/ci-gate",
    ]
    lab = next(at for at, line in enumerate(lines) if line.startswith("the lab of"))
    assert lines[lab - 1].startswith("ran make compat SUITES=--quick ")
    assert lines[lab + 1].startswith("ran python -m tests.drills.pipeline")


@pytest.mark.parametrize("fails", ["SEEDS", "apache_kafka"])
def test_a_step_that_fails_waits_for_the_lab_to_take_itself_away(fails: str, tmp_path: Path) -> None:
    status, lines = run(tmp_path, AT=fails, FAILS=fails)
    assert status == 3, lines
    assert fails in [line for line in lines if line.startswith("ran ")][-1]
    assert lines[-1].startswith("the lab of")
    assert (tmp_path / "lab").read_text() == "begun\nended\n"


def test_a_step_that_fails_before_the_lab_starts_none(tmp_path: Path) -> None:
    status, lines = run(tmp_path, FAILS="make test-slow")
    assert status == 3
    assert ran(lines)[-1] == "make test-slow ONCE_MORE=.ci/once-more"
    assert not (tmp_path / "lab").exists()


def test_a_lab_that_fails_fails_the_run_and_its_output_is_shown(tmp_path: Path) -> None:
    status, lines = run(tmp_path, LAB="1")
    assert status == 1
    assert lines[-1].startswith("the lab of")


def test_a_machine_without_a_lab_is_told_and_passes(tmp_path: Path) -> None:
    status, lines = run(tmp_path, LAB="2")
    assert status == 0
    assert "NOT COVERED: the playbooks on a booted host, as this machine carries none (above)" in lines
    assert ran(lines)[-1] == "gate results/ci-gate"


def test_what_passed_only_the_second_time_is_said_after_the_output_of_the_lab(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    (tmp_path / "bin/make").write_text(
        "#!/bin/sh\n"
        'if [ "$1" = test-slow ]; then mkdir -p results/ci-once-more; '
        "echo 'passed only the second time: x' > results/ci-once-more/passed-the-second-time; fi\n"
        'if [ "$1" = compat ]; then touch go; exit 3; fi\n'
    )
    done = subprocess.run(
        [".ci/run"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == "passed only the second time: x"
    assert "the lab of" in done.stdout


def test_a_run_that_is_ended_by_a_signal_waits_for_the_lab(tmp_path: Path) -> None:
    """Of SIGTERM to the script alone; the lab would leave hosts behind if it were killed."""
    environment = prepared(tmp_path)
    (tmp_path / "bin/make").write_text('#!/bin/sh\nif [ "$1" = compat ]; then touch compat; sleep 1; fi\n')
    with subprocess.Popen([".ci/run"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        end_s = time.monotonic() + DEADLINE_S
        while not (tmp_path / "compat").exists() or not (tmp_path / "lab").exists():
            assert time.monotonic() < end_s
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1.5)
        (tmp_path / "go").touch()
        said, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == -signal.SIGTERM
    assert "the lab of" in said
    assert (tmp_path / "lab").read_text() == "begun\nended\n"
