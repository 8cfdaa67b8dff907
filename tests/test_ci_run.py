"""`.ci/run`: its steps, their order, and which run beside others; programs stand for all it calls."""

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
LAB, SIMULATION = "tests.lab", "SEEDS"
# Each says its name and arguments. BESIDE names one that waits until that of AT runs, and ends with ENDS; FAILS names
# one that ends with 3.
PROGRAM = """#!/bin/sh
step="$(basename "$0") $*"
case "$step" in
  *"${BESIDE:-tests.lab}"*)
    echo begun >> beside
    echo "beside $step"
    while [ -e .ci ] && ! [ -e go ]; do sleep 0.02; done
    echo ended >> beside
    exit "${ENDS:-0}" ;;
esac
echo "ran $step"
case "$step" in *"${AT:-apache_kafka}"*) touch go ;; esac
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


@pytest.mark.parametrize(
    ("beside", "at", "after", "before"),
    [
        (SIMULATION, "test-slow", "make test-slow", "make quickstart"),
        (LAB, "apache_kafka", "make release ARGS=--only", "python -m tests.drills.pipeline"),
    ],
)
def test_a_step_runs_beside_another_and_its_output_comes_in_one_piece(
    beside: str, at: str, after: str, before: str, tmp_path: Path
) -> None:
    """It ends when the other one is there."""
    status, lines = run(tmp_path, BESIDE=beside, AT=at)
    assert status == 0, lines
    place = next(number for number, line in enumerate(lines) if line.startswith("beside "))
    assert beside in lines[place]
    assert lines[place - 1].startswith(f"ran {after}")
    assert lines[place + 1].startswith(f"ran {before}")


def test_the_steps_and_their_order(tmp_path: Path) -> None:
    status, lines = run(tmp_path)
    assert status == 0, lines
    assert ran(lines) == [
        "commit-subjects",
        "make test ONCE_MORE=.ci/once-more",
        "make test-slow ONCE_MORE=.ci/once-more",
        "make simulate SEEDS=150",
        "make quickstart OUT=results/ci",
        "make bench-micro ARGS=--quiet",
        "make compat SUITES=--quick",
        "make release ARGS=--only",
        "python -m tests.drills.pipeline",
        "make compat SUITES=--quick",
        "gate results/ci-gate",
    ]


@pytest.mark.parametrize(("beside", "fails"), [(SIMULATION, "test-slow"), (LAB, "apache_kafka")])
def test_a_step_that_fails_waits_for_the_one_beside_it(beside: str, fails: str, tmp_path: Path) -> None:
    """The lab has hosts to take away."""
    status, lines = run(tmp_path, BESIDE=beside, AT=fails, FAILS=fails)
    assert status == 3, lines
    assert fails in [line for line in lines if line.startswith("ran ")][-1]
    assert lines[-1].startswith("beside ")
    assert (tmp_path / "beside").read_text() == "begun\nended\n"


def test_a_step_that_fails_before_the_lab_starts_none(tmp_path: Path) -> None:
    status, lines = run(tmp_path, FAILS="make quickstart")
    assert status == 3
    assert ran(lines)[-1] == "make quickstart OUT=results/ci"
    assert not (tmp_path / "beside").exists()


@pytest.mark.parametrize(("beside", "at"), [(SIMULATION, "test-slow"), (LAB, "apache_kafka")])
def test_what_fails_beside_a_step_fails_the_run_and_its_output_is_shown(beside: str, at: str, tmp_path: Path) -> None:
    status, lines = run(tmp_path, BESIDE=beside, AT=at, ENDS="1")
    assert status == 1
    assert lines[-1].startswith("beside ")


def test_a_machine_without_a_lab_is_told_and_passes(tmp_path: Path) -> None:
    status, lines = run(tmp_path, ENDS="2")
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
    assert "beside python -m tests.lab" in done.stdout


def test_a_run_that_is_ended_by_a_signal_waits_for_the_lab(tmp_path: Path) -> None:
    """Of SIGTERM to the script alone; the lab would leave hosts behind if it were killed."""
    environment = prepared(tmp_path)
    (tmp_path / "bin/make").write_text('#!/bin/sh\nif [ "$1" = compat ]; then touch compat; sleep 1; fi\n')
    with subprocess.Popen([".ci/run"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        end_s = time.monotonic() + DEADLINE_S
        while not (tmp_path / "compat").exists() or not (tmp_path / "beside").exists():
            assert time.monotonic() < end_s
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1.5)
        (tmp_path / "go").touch()
        said, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == -signal.SIGTERM
    assert "beside python -m tests.lab" in said
    assert (tmp_path / "beside").read_text() == "begun\nended\n"
