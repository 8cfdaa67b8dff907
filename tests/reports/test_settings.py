"""The recorded parts: the command to repeat, checksums, the environment whatever its shape."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from pathlib import Path

import pytest

from highwater.reports import settings
from highwater.reports.blocks import FactColumns
from highwater.reports.cells import Run
from highwater.results.models import EndToEnd, Environment, TrialSummary
from highwater.results.reader import RunResult
from tests.reports.sample_run import Sample, write_sample


def test_the_command_survives_a_shell(tmp_path: Path) -> None:
    run = RunResult(write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1)))
    argv = ["highwater", "bench", "run", "it's $HOME `x`.yaml", "--out", "a b"]
    run.manifest = run.manifest.model_copy(update={"argv": argv, "cwd": "/srv/my $(runs)"})
    first, second = settings.command_to_repeat(run).split(" && \\\n")
    assert shlex.split(first) == ["cd", "/srv/my $(runs)"]
    assert shlex.split(second) == argv


def test_checksums_are_what_sha256sum_checks(golden_run: Path) -> None:
    text = settings.checksums(RunResult(golden_run))
    lines = {line[66:]: line[:64] for line in text.splitlines()}
    assert lines["manifest.json"] == hashlib.sha256((golden_run / "manifest.json").read_bytes()).hexdigest()
    top = {"manifest.json", "env.json", "probes.json", "analysis.json", "calibration.json"}
    assert top <= set(lines)
    assert len(lines) == len(top) + 29 * 10, "ten files of each finished trial"
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet"],
        input=text,
        cwd=golden_run,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_environment_of_any_shape_is_shown(tmp_path: Path) -> None:
    facts = {
        "kernel": "6.1",
        "memory": {"total_bytes": 2**34, "cgroup_limit_bytes": None},
        "sysctl": {"vm.swappiness": "60"},
        "block_devices": [{"name": "sda", "rotational": True, "model": None}],
        "swaps": [],
        "load_average": [0.714355],
        "versions": {"numpy": "2.4"},
        "nested": {"a": {"b_c": {"d": False}}},
    }
    sample = Sample(axes={}, trials=1, measure_s=1, environment=Environment(facts=facts, tuning=[{"id": "x"}, {}]))
    result = RunResult(write_sample(tmp_path / "run", sample))
    sections = {section.title: dict(section.rows) for section in settings.environment_facts(result)}
    assert sections["Host"] == {"Kernel": "6.1", "Swaps": "none", "Load average": "0.714"}
    assert sections["Memory"] == {"Total": "16 GiB (17,179,869,184)", "Cgroup limit": "–"}
    assert sections["Sysctl"] == {"vm.swappiness": "60"}
    assert sections["Block devices"] == {"sda": "rotational yes"}
    assert sections["Nested"] == {"a.b_c.d": "no"}
    assert sections["Versions"]["numpy"] == "2.4"
    table = settings.tuning_table(result)
    assert table
    assert [row.fields[0].text for row in table.rows] == ["x", ""]


def test_what_differs_between_trials_is_spelled_out(tmp_path: Path) -> None:
    sample = Sample(
        axes={},
        trials=2,
        measure_s=1,
        change=lambda s: s.model_copy(
            update={"system": s.system.model_copy(update={"effective_config": {"num.partitions": str(s.trial)}})}
        ),
    )
    run = Run.of(RunResult(write_sample(tmp_path / "run", sample)))
    system = dict(settings.system_facts(run)[0].rows)
    assert system["num.partitions"] == "1; 2"


def test_trials_stand_in_the_order_they_ran(golden_run: Path) -> None:
    run = Run.of(RunResult(golden_run))
    table = settings.trial_table(run)
    rows = [[field.text for field in row.fields] for row in table.rows]
    blocks = [int(row[1]) for row in rows]
    assert blocks == sorted(blocks)
    started = [row[4] for row in rows if row[4] != "–"]
    assert started == sorted(started)
    assert {len(row) for row in rows} == {len(table.columns)}
    assert len(rows) == len(run.result.manifest.trials)


@pytest.mark.parametrize(
    ("clock", "told"),
    [
        ("same_host_monotonic", "one monotonic clock of one host, 0 negative samples"),
        (
            "measured_offset",
            (
                "clocks of several hosts, their offsets measured "
                "(±40 µs at the start, moved by 2.5 µs until the end), 0 negative samples"
            ),
        ),
        ("wall_clock", "wall clocks of several hosts, 0 negative samples"),
    ],
)
def test_whose_clocks_end_to_end_latency_compares_is_told(tmp_path: Path, clock: str, told: str) -> None:
    def timed_by(summary: TrialSummary) -> TrialSummary:
        assert summary.e2e
        e2e = EndToEnd.model_validate(summary.e2e.model_dump() | {"clock": clock})
        generator = summary.generator.model_copy(update={"clock_error_ns": 40_000, "clock_drift_ns": 2_500})
        return summary.model_copy(update={"e2e": e2e, "generator": generator})

    sample = Sample(axes={}, trials=1, measure_s=1, change=timed_by)
    run = Run.of(RunResult(write_sample(tmp_path / "run", sample)))
    (columns,) = settings.how_compared(run)
    assert isinstance(columns, FactColumns)
    assert ("Clock of end-to-end latency", told) in columns.groups[1].rows
