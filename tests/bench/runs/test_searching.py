"""Searches over stand-ins: a system that holds so many records a second and no more."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import pytest

from highwater.bench.display.tables import print_search
from highwater.bench.runs import execution, launchers
from highwater.bench.runs.agenda import TrialOutcome
from highwater.bench.runs.runner import Run
from highwater.bench.runs.search import SearchRange
from highwater.bench.runs.searching import (
    SearchAgenda,
    check_same_range,
    failed_limit,
    lag_growth,
    search_plan,
    searchable,
)
from highwater.bench.trials.plan import planned_trial
from highwater.bench.verify import disagreements
from highwater.bench.workload.specification import Specification, specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import TrialError, UsageError
from highwater.common.quantities import RATE
from highwater.results.analysis.searched import search_statement, search_step
from highwater.results.analysis_file import Search
from highwater.results.histogram import Histogram
from highwater.results.models import LoadTask, Manifest, Reason, SloResult, Window
from highwater.results.reader import RunResult
from highwater.spark_loadgen.model import LoadPlan, LoadResult
from highwater.spark_loadgen.schedule import OpenSchedule
from tests.bench.fakes import MINIMAL, FakeClient, FakeLauncher, FakeSystems, load_result
from tests.bench.summaries import LATE, LOST, summary

MATRIX = "matrix: {producers.client.acks: [1, all]}\n"
WANTED = SearchRange(min_per_s=100, max_per_s=None, precision_ratio=0.1, confirmations=2)


def rate_of(plan: LoadPlan) -> int:
    assert isinstance(plan.schedule, OpenSchedule)
    return int(plan.schedule.steps[0].rate_per_s)


def holding(rate_per_s: int) -> Callable[[LoadPlan], LoadResult]:
    """A load whose acknowledgements stop at this rate."""

    def outcome(plan: LoadPlan) -> LoadResult:
        healthy = load_result(plan)
        if rate_of(plan) <= rate_per_s:
            return healthy
        acked = [rate_per_s] * plan.schedule_s
        delivery = replace(healthy.delivery, sent=sum(acked), acked=sum(acked), received=sum(acked))
        return replace(healthy, acked=acked, sent=acked, received=acked, delivery=delivery)

    return outcome


class Client(FakeClient):
    """Finds in the log what the stand-in acknowledged."""

    def _count(self) -> int:
        plan = self._launcher.plans[-1]
        return self._launcher.outcome(plan).delivery.acked


@dataclass
class Bench:
    directory: Path
    text: str = MINIMAL
    wanted: SearchRange = WANTED
    cell: str | None = None
    launcher: FakeLauncher = field(default_factory=lambda: FakeLauncher(holding(500)))
    systems: FakeSystems = field(default_factory=FakeSystems)

    @property
    def specification(self) -> Specification:
        text = self.text + f"storage: {{target: here, targets: {{here: {{path: {self.directory}}}}}}}\n"
        return specify(parse_document(text, "w.yaml"), self.directory / "w.yaml")

    @property
    def out(self) -> Path:
        return self.directory / "out"

    def search(self, *, resume: bool = False) -> tuple[Manifest, Search]:
        specification = searchable(self.specification, self.cell)
        plan = search_plan(specification, self.wanted, None)

        def drive(run: Run) -> Manifest:
            run.start, run.connect = self.systems, Client(self.launcher)
            agenda = SearchAgenda(specification, self.wanted, plan.seed, run.writer)
            return run.drive(agenda, agenda.conclude, agenda.exit_code)

        manifest = execution.run_plan(plan, self.out, resume=resume, drive=drive)
        search = RunResult(self.out).search()
        assert search is not None
        return manifest, search


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path)
    monkeypatch.setattr(launchers, "make_launcher", lambda *_: made.launcher)
    return made


def test_the_answer_is_a_bracket_with_its_reason_and_was_confirmed(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, search = bench.search()
    assert (manifest.status, manifest.exit_code, search.status) == ("done", 0, "answered")
    assert search.last_passing_per_s is not None
    assert search.first_failing_per_s is not None
    assert search.last_passing_per_s <= 500 < search.first_failing_per_s <= search.last_passing_per_s * 1.1
    assert (search.limit, search.confirmed, search.generator_limited) == ("load.achieved_ratio", 2, False)
    assert [stage for stage, _ in groupby(probe.stage for probe in search.probes)] == ["ramp", "bisect", "confirm"]
    failed = Counter(probe.rate_per_s for probe in search.probes if not probe.passed)
    assert set(failed.values()) == {2}, "a rate that fails is tried once more"
    assert [rate_of(plan) for plan in bench.launcher.plans] == [probe.rate_per_s for probe in search.probes]
    assert len({plan.topics for plan in bench.launcher.plans}) == len(search.probes)

    result = RunResult(bench.out)
    assert list(disagreements(result)) == []
    assert [probe.verdict for probe in search.probes] == [trial.summary.verdict for trial in result.trials]
    older = json.loads((bench.out / "search.json").read_text())
    older["probes"] = [{name: value for name, value in probe.items() if name != "verdict"} for probe in older["probes"]]
    (bench.out / "search.json").write_text(json.dumps(older))
    assert RunResult(bench.out).search() == search, "an older file has none: those of the trials are taken"
    tired = result.trials[0]
    generator = tired.summary.generator.model_copy(update={"cpu_ratio_max": 1.0})
    dumped = tired.summary.model_copy(update={"generator": generator}).model_dump_json(by_alias=True)
    (tired.directory / "summary.json").write_text(dumped)
    line = f"{tired.summary.trial_id}: verdict: says {tired.summary.verdict.state}"
    assert any(found.startswith(line) for found in disagreements(RunResult(bench.out)))
    assert [trial.trial_id for trial in result.manifest.trials] == [probe.trial_id for probe in search.probes]
    rates = [trials[0].summary.offered_per_s for trials in result.cells().values()]
    assert rates == sorted(rates, key=lambda rate: rate or 0)
    analysis = result.analysis()
    assert analysis is not None
    assert len(analysis.cells) == len({probe.rate_per_s for probe in search.probes})

    print_search(RunResult(bench.out), search)
    printed = capsys.readouterr().out
    assert f"{search.last_passing_per_s}/s is sustained, confirmed by 2 of 2 fresh trials; " in printed
    assert f"{search.first_failing_per_s}/s failed: less than 99.5 % of the offered load was acknowledged (" in printed


def test_objectives_are_part_of_what_passes(bench: Bench) -> None:
    def slower_with_the_rate(plan: LoadPlan) -> LoadResult:
        result = load_result(plan)
        seconds = {second: Histogram.of_values([rate_of(plan) * 10_000] * 100) for second in range(plan.schedule_s)}
        return replace(result, histograms=result.histograms | {"produce_response": seconds})

    bench.launcher.outcome = slower_with_the_rate
    bench.text += "slo: {produce.p99: '<4ms'}\n"
    _, search = bench.search()
    assert search.limit == "produce.p99"
    assert search.last_passing_per_s is not None
    assert 360 <= search.last_passing_per_s < 400
    assert search.slo == {"produce.p99": "<4ms"}
    assert search.text is not None
    assert re.fullmatch(r"produce\.p99 was 4(\.\d+)? ms, <4ms is required", search.text)


def test_an_objective_that_the_generator_alone_breaks_is_the_generators_limit() -> None:
    def late(percentile_ns: int, backpressure: int = 0) -> TrialOutcome:
        found = outcome(slo=[SloResult(metric="produce.p99", bound="<10ms", value=2.5e7, met=False)])
        assert found.summary is not None
        produce, generator = found.summary.produce, found.summary.generator
        delay = produce.send_delay_ns.model_copy(update={"p99": percentile_ns})
        task = LoadTask(
            task=0,
            role="producer",
            host="here",
            pid=1,
            cpu_count=2,
            cpu_ratio_max=0.1,
            sent=1,
            acked=1,
            failed=0,
            received=0,
            first_send_delay_ns=0,
            backpressure=backpressure,
        )
        changed = {
            "produce": produce.model_copy(update={"send_delay_ns": delay}),
            "generator": generator.model_copy(update={"tasks": [task]}),
        }
        return TrialOutcome(found.plan, found.summary.model_copy(update=changed))

    assert failed_limit(late(12_000_000), [], 0.995) == (
        "generator.send_delay_p99_ns",
        (
            "the load generator was late by 12 ms at p99, more than the objective of 10 ms: "
            "it is the limit, not the system"
        ),
    )
    assert failed_limit(late(9_000_000), [], 0.995)[0] == "produce.p99"
    assert failed_limit(late(12_000_000, backpressure=1), [], 0.995)[0] == "produce.p99", "it waited for the system"


def test_a_generator_that_gives_out_first_is_said_to(bench: Bench) -> None:
    def busy(plan: LoadPlan) -> LoadResult:
        result = load_result(plan)
        ratio = 0.99 if rate_of(plan) > 300 else 0.5
        return replace(result, generator=replace(result.generator, cpu_ratio_max=ratio))

    bench.launcher.outcome = busy
    manifest, search = bench.search()
    assert (search.limit, search.generator_limited, manifest.exit_code) == ("generator.cpu_ratio_max", True, 0)
    statement = search_statement(search)
    assert statement.text.endswith(
        "failed: busiest load task above 85 % of a core (99 %); the load generator is the limit, and the system may "
        "sustain more."
    )
    assert statement.state == "open"
    assert "--master" in search_step(search)


def test_not_even_the_lowest_rate(bench: Bench) -> None:
    bench.launcher.outcome = holding(50)
    manifest, search = bench.search()
    assert (search.last_passing_per_s, search.first_failing_per_s, manifest.exit_code) == (None, 100, 4)
    assert search_statement(search).text == (
        "Not even 100/s is sustained: less than 99.5 % of the offered load was acknowledged (50 %); begin lower with "
        "--min."
    )


def test_everything_up_to_the_highest_rate(bench: Bench) -> None:
    bench.wanted = replace(WANTED, max_per_s=300)
    _, search = bench.search()
    assert (search.last_passing_per_s, search.first_failing_per_s, search.confirmed) == (300, None, 2)
    assert search_statement(search).text.startswith(
        "300/s, the highest rate requested, is sustained, confirmed by 2 of 2 fresh trials."
    )


def test_a_system_that_dies_under_load_ends_the_ramp_and_fails_the_run(bench: Bench) -> None:
    bench.systems.faults = {3: TrialError("the broker was killed by SIGKILL")}
    manifest, search = bench.search()
    assert (search.first_failing_per_s, search.limit) == (400, "trial.failed")
    assert search.text == "the broker was killed by SIGKILL"
    assert manifest.exit_code == 3


def test_an_interrupted_search_is_gone_on_with(bench: Bench) -> None:
    bench.systems.faults = {5: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        bench.search()
    manifest, search = bench.search(resume=True)
    assert search.status == "answered"
    assert len(bench.launcher.plans) == len(search.probes)
    tried = sorted({probe.rate_per_s for probe in search.probes})
    assert [RATE.integer(str(rate)) for rate in manifest.axes["load.rate"]] == tried
    check_same_range(bench.out, WANTED)
    with pytest.raises(UsageError, match="was begun with other options"):
        check_same_range(bench.out, replace(WANTED, confirmations=9))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("load: {rate: 100/s}", "load: {model: closed}"), "a search chooses the rate"),
        (("trials:", MATRIX + "trials:"), "is of one cell; name it with --cell: acks=1, acks=all"),
    ],
)
def test_what_cannot_be_searched(bench: Bench, change: tuple[str, str], error: str) -> None:
    bench.text = bench.text.replace(*change)
    with pytest.raises(UsageError, match=error):
        bench.search()


def test_one_cell_of_a_matrix_is_searched(bench: Bench) -> None:
    bench.text += MATRIX
    bench.cell = "acks=1"
    _, search = bench.search()
    assert search.status == "answered"
    assert {plan.producer_config["acks"] for plan in bench.launcher.plans} == {"1"}
    bench.cell = "acks=2"
    with pytest.raises(UsageError, match=r"--cell: 'acks=2' is not one of acks=1, acks=all"):
        bench.search()


def window(second: int, lag: int | None, acked: int = 1000) -> Window:
    none = dict.fromkeys([f"{part}_{name}_ns" for part in ("produce", "e2e") for name in ("p50", "p99", "max")])
    return Window.model_validate(
        none
        | {"second": second, "phase": "measure", "offered": acked, "sent": acked, "acked": acked}
        | {"acked_bytes": acked, "failed": 0, "received": acked, "received_bytes": acked}
        | {"generator_cpu_ratio_max": None, "lag": lag}
    )


def test_lag_that_grows_is_told_from_lag_that_wavers() -> None:
    assert lag_growth([window(second, 100 * second) for second in range(10)]) == pytest.approx(1000)
    assert lag_growth([window(second, 500 + (-1) ** second * 400) for second in range(10)]) == 0.0
    assert lag_growth([window(second, 0) for second in range(10)]) == 0.0
    assert lag_growth([window(second, None) for second in range(10)]) is None
    assert lag_growth([window(0, 1), window(1, 2)]) is None


def outcome(**changes: object) -> TrialOutcome:
    cell = specify(parse_document(MINIMAL, "w.yaml"), Path("w.yaml")).cells[0]
    return TrialOutcome(planned_trial(1, cell, block=1, order=1).plan, summary(1, **changes))  # type: ignore[arg-type]


def test_a_lost_record_comes_before_a_missed_rate_and_that_before_an_objective() -> None:
    missed = SloResult(metric="e2e.p99", bound="<20ms", value=3e7, met=False)
    growing = [window(second, 100 * second) for second in range(10)]
    assert failed_limit(outcome(reason=LOST, slo=[missed]), growing, 0.995)[0] == "delivery.lost"
    assert failed_limit(outcome(reason=LATE, slo=[missed]), growing, 0.995)[0] == "load.achieved_ratio"
    assert failed_limit(outcome(slo=[missed]), growing, 0.995)[0] == "e2e.p99"
    assert failed_limit(outcome(), growing, 0.995) == (
        "lag.slope",
        "consumers fell 1,000 records behind in 10 s (at most 50 may be)",
    )
    broken = outcome().plan.model_copy(update={"generator_failed": True, "error": "a task died"})
    assert failed_limit(TrialOutcome(broken, None), [], 0.995) == ("generator.failed", "a task died")
    busy = Reason(check="host.cpu_ratio", value=0.99, limit=0.95, text="busy")
    untuned = Reason(
        check="host.profile", value="drifted", limit="verified", text="vm.swappiness was 60 at the end, not 1"
    )
    assert failed_limit(outcome(reason=untuned), [], 0.995) == ("host.profile", untuned.text)
    assert failed_limit(outcome(reason=busy), [window(second, 0) for second in range(10)], 0.995) == (None, None)
