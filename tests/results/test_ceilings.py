"""Ceilings from result directories: of a run, of a search, and why there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli import app
from highwater.common.ceilings import CONSUME, DISK_WRITE, PRODUCE, Ceiling, parse_ceilings
from highwater.common.errors import UsageError
from highwater.results.analysis_file import Search, SearchProbe
from highwater.results.ceilings import ceilings_of
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from highwater.results.storage import WritebackUse
from highwater.results.writer import ResultWriter
from tests.bench.summaries import LATE
from tests.reports.sample_run import Sample, write_sample

RUN = Sample(axes={"producers.client.batch.size": ["2KiB", "64KiB"]}, trials=3, rate_per_s=2000.0)


def faster_with_large_batches(summary: TrialSummary) -> TrialSummary:
    """1000 or 4000 records of 1 KiB a second, stored in half as many bytes."""
    rate = 4000.0 if summary.factors["producers.client.batch.size"] == "64KiB" else 1000.0
    written = WritebackUse(
        dirty_max_bytes=None,
        writeback_max_bytes=None,
        written_bytes=None,
        appended_bytes=summary.delivery.acked * 512,
    )
    return summary.model_copy(
        update={
            "achieved_per_s": rate,
            "achieved_bytes_per_s": rate * 1024,
            "consumed_bytes_per_s": rate * 1024,
            "writeback": written,
            "tuning_fingerprint": "f" * 64,
            "backlog": None,
        }
    )


def made(folder: Path, sample: Sample = RUN, **changed: Any) -> RunResult:
    wanted: dict[str, Any] = {"change": faster_with_large_batches, "detailed": True} | changed
    return RunResult(write_sample(folder, replace(sample, **wanted)))


def by_resource(found: tuple[Ceiling, ...], resource: str) -> list[Ceiling]:
    return [each for each in found if each.resource == resource]


def test_a_run_gives_what_was_achieved_at_least(tmp_path: Path) -> None:
    result = made(tmp_path / "run")
    found = ceilings_of([result])
    facts = result.environment.facts
    assert (found.host.cpu_model, found.host.kernel) == (facts["cpu_model"], facts["kernel_release"])
    small, large = sorted(by_resource(found.ceilings, PRODUCE), key=lambda each: each.bytes_per_s)
    assert (round(small.bytes_per_s), small.batch_bytes) == (512_000, 2048)
    assert (round(large.bytes_per_s), large.batch_bytes) == (2_048_000, 65_536)
    assert large.is_at_least
    assert large.first_fail_bytes_per_s is None
    (consumed,) = by_resource(found.ceilings, CONSUME)
    assert consumed.bytes_per_s == pytest.approx(2_048_000)
    assert by_resource(found.ceilings, DISK_WRITE)
    assert parse_ceilings(found.as_json()) == found


def searched(folder: Path, **changed: Any) -> RunResult:
    result = made(folder, replace(RUN, axes={"producers.client.batch.size": ["64KiB"]}))
    probes = [
        SearchProbe(
            trial_id=trial.summary.trial_id, stage="confirm", rate_per_s=4000, passed=True, limit=None, text=None
        )
        for trial in result.trials[:2]
    ]
    search = Search(
        status="answered",
        slo={},
        min_per_s=1000,
        max_per_s=None,
        precision_ratio=0.05,
        last_passing_per_s=4000,
        first_failing_per_s=5000,
        limit="produce.p99",
        text="p99 was 30 ms, above 20 ms",
        generator_limited=False,
        confirmed=2,
        confirmations=2,
        probes=probes,
    )
    ResultWriter.reopen(folder).write_search(search.model_copy(update=changed))
    return RunResult(folder)


def test_a_search_gives_a_bracket(tmp_path: Path) -> None:
    (found,) = by_resource(ceilings_of([searched(tmp_path / "run")]).ceilings, PRODUCE)
    assert found.bytes_per_s == pytest.approx(2_048_000)
    assert found.first_fail_bytes_per_s == pytest.approx(2_560_000)
    assert not found.is_at_least
    assert found.limit == "p99 was 30 ms, above 20 ms"
    limited = by_resource(ceilings_of([searched(tmp_path / "weak", generator_limited=True)]).ceilings, PRODUCE)
    assert limited[0].is_at_least


def test_what_gives_no_ceiling(tmp_path: Path) -> None:
    def spoilt(summary: TrialSummary) -> TrialSummary:
        return faster_with_large_batches(summary).model_copy(
            update={"verdict": summary.verdict.model_copy(update={"state": "invalid", "reasons": [LATE]})}
        )

    with pytest.raises(UsageError, match="has no valid trial"):
        ceilings_of([made(tmp_path / "invalid", change=spoilt)])
    with pytest.raises(UsageError, match="is of a workload that is not for measurement"):
        ceilings_of([made(tmp_path / "smoke", for_measurement=False)])
    with pytest.raises(UsageError, match="not even the lowest rate of the search passed"):
        ceilings_of([searched(tmp_path / "none", last_passing_per_s=None)])

    def copied(summary: TrialSummary) -> TrialSummary:
        system = summary.system.model_copy(update={"copies": 3})
        return faster_with_large_batches(summary).model_copy(update={"system": system})

    with pytest.raises(UsageError, match=r"three measured 3 brokers, which shared one host .*; measure one \(system: "):
        ceilings_of([made(tmp_path / "three", change=copied)])

    def tuned_by_trial(summary: TrialSummary) -> TrialSummary:
        return faster_with_large_batches(summary).model_copy(update={"tuning_fingerprint": str(summary.trial) * 64})

    with pytest.raises(UsageError, match="measured with several tunings of its host"):
        ceilings_of([made(tmp_path / "tuned", change=tuned_by_trial)])


def test_results_of_two_classes_of_hosts_do_not_mix(tmp_path: Path) -> None:
    first = made(tmp_path / "one")
    facts = {**first.environment.facts, "cpu_model": "Another"}
    other = made(tmp_path / "two", environment=first.environment.model_copy(update={"facts": facts}))
    with pytest.raises(UsageError, match=r"two is of another class of hosts than .*one \(cpu_model differs\)"):
        ceilings_of([first, other])


def test_the_command_writes_a_file_and_refuses_in_one_line(tmp_path: Path) -> None:
    made(tmp_path / "run")
    out = tmp_path / "ceilings.json"
    runner = CliRunner()
    assert runner.invoke(app, ["bench", "ceilings", str(tmp_path / "run"), "--out", str(out)]).exit_code == 0
    assert parse_ceilings(out.read_text()).ceilings
    refused = runner.invoke(app, ["bench", "ceilings", str(tmp_path)])
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert "is not a result directory" in refused.stderr
