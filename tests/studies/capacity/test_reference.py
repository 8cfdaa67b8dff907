"""Plans from reference hosts: which host is nearest, how wide the answer is, what it says of itself, bad files."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.results.analysis.statement import command_of
from highwater.studies.capacity.ceilings import Measured, Origin, Prediction
from highwater.studies.capacity.nearest import (
    LIKE_HOST_FACTOR,
    OTHER_HOST_FACTOR,
    PlannedHost,
    differences,
    nearest,
    planned_host,
)
from highwater.studies.capacity.plan import Plan, make_plan
from highwater.studies.capacity.reference_file import (
    DiskRanges,
    HostFacts,
    MeasuredRange,
    ReferenceFile,
    measured_of_reference,
    parse_reference,
)
from highwater.studies.capacity.stored import plan_of, plan_text
from highwater.studies.capacity.text import answer, beyond_measured, lines, next_step
from highwater.studies.commands.ceilings_sources import REFERENCES
from tests.studies.capacity.ceilings_run import ROOT, write_ceilings
from tests.studies.capacity.samples import TEXT, load, load_with, measured

EXAMPLE = ROOT / "examples/load.yaml"
SHIPPED = sorted(REFERENCES.glob("*.json"))
HERE = PlannedHost("Example CPU", 8, 32 << 30, "6.1.0-generic", "x86_64")

AS_MEASURED = Origin("2026-11-27", "", (), 1.0, 1.0)


def one(value: float) -> MeasuredRange:
    return MeasuredRange(value, value, value)


def reference(name: str = "example", **facts: Any) -> ReferenceFile:
    host: dict[str, Any] = {"cpu_model": "Example CPU", "cpu_count": 8, "memory_bytes": 32 << 30, "kernel": "6.1.0"}
    return ReferenceFile(
        name=name,
        measured_on="2026-11-27",
        conditions="nothing else on the host",
        host=HostFacts(**({"architecture": "x86_64"} | host | facts)),
        system="highwater 0",
        trials=45,
        busiest_cores=one(1.0),
        costs_cpu_s={
            name: one(cost)
            for name, cost in {
                "produced_bytes": 2e-9,
                "produced_batches": 50e-6,
                "consumed_bytes": 1e-9,
                "consumed_batches": 25e-6,
                "replicated_bytes": 3e-9,
                "replicated_batches": 60e-6,
                "brokers": 0.02,
            }.items()
        },
        waking_cpu_s={"4096": one(40e-6), "16384": one(50e-6), "65536": one(80e-6)},
        batch_bytes={kind: MeasuredRange(4096, 16_384, 65_536) for kind in ("produced", "consumed", "replicated")},
        most_of_one_broker={"produced_batches": 10_000.0},
        disks=(DiskRanges("ssd", "ext4", one(400e6), one(500e6)),),
        process_bytes=100e6,
        partition_bytes=20_000.0,
        partition_bytes_per_s=None,
        predictions=(Prediction("held-out-read", 0.31, 0.3),),
    )


def planned(known: Measured, brokers: int | None = None) -> Plan:
    wanted = load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 4096})
    return make_plan(wanted, known, date(2026, 11, 29), brokers)


def plan(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_each_shipped_host_makes_a_plan_and_is_anonymous(file: Path) -> None:
    found = parse_reference(file.read_text("utf-8"), file.name)
    assert found.name == file.stem
    assert date.fromisoformat(found.measured_on)
    wanted = load(EXAMPLE.read_text("utf-8"))
    made = make_plan(wanted, measured_of_reference(found, AS_MEASURED), date(2026, 11, 29))
    assert made.fits
    assert set(json.loads(file.read_text("utf-8"))["host"]) == {
        "cpu_model", "cpu_count", "memory_bytes", "kernel", "architecture", "runs_in",
    }  # fmt: skip


def test_without_ceilings_the_answer_comes_first_and_says_whose_figures_it_has() -> None:
    done = plan(EXAMPLE)
    assert done.exit_code == 0, done.output
    shown = done.stdout.splitlines()
    assert shown[0].startswith("shop: ")
    assert "%" not in shown[0]
    assert "; measured on a reference host, not yours" in shown[0]
    assert shown[1].startswith("The busiest of ")
    step, host = (next(n for n, line in enumerate(shown) if line.startswith(s)) for s in ("next: Measure ", "from a "))
    assert step < host
    assert shown[host].startswith("from a reference host, not yours: ")
    assert shown[host].endswith("your disk is unknown")


def test_a_file_of_what_was_written_is_read_as_it_was() -> None:
    assert parse_reference(reference().as_json(), "example.json") == reference()


def test_a_plan_from_a_reference_is_stored_with_where_it_is_from() -> None:
    made = planned(nearest([reference()], HERE))
    assert made.origin is not None
    assert plan_of(plan_text(made), "plan.json") == made


def test_the_processor_counts_before_the_number_and_that_before_memory_and_kernel() -> None:
    far = [reference("more", cpu_count=64), reference("other", cpu_model="Other CPU")]
    for nearer in (reference("memory", memory_bytes=256 << 30), reference("kernel", kernel="5.4.0"), reference()):
        assert nearest([*far, nearer], HERE).runs == (nearer.name,)
    assert nearest(far, HERE).runs == ("more",)


def test_differences_are_a_table_of_facts() -> None:
    other = reference(cpu_count=2, memory_bytes=8 << 30, kernel="6.18.44").host
    assert [(each.fact, each.planned, each.reference) for each in differences(other, HERE)] == [
        ("processors", "8", "2"),
        ("kernel", "6.1", "6.18"),
        ("memory", "32 GiB", "8 GiB"),
    ]
    assert not list(differences(reference(memory_bytes=64 << 30).host, HERE))
    unknown = replace(HERE, cpu_model=None)
    assert [each.planned for each in differences(reference().host, unknown)] == ["not known"]


def test_what_a_load_file_says_of_its_hosts_counts_more_than_this_host() -> None:
    wanted = load(TEXT.replace("hosts: {", "hosts: {cpus: 64, cpu_model: Other CPU, "))
    assert planned_host(wanted, HERE) == replace(HERE, cpu_count=64, cpu_model="Other CPU", memory_bytes=32 << 30)
    assert planned_host(load(), HERE).cpu_count == 8


def test_another_processor_makes_the_answer_wider_and_a_like_one_wider_than_its_own_measurement() -> None:
    own = planned(measured_of_reference(reference(), AS_MEASURED))
    like = planned(nearest([reference()], HERE))
    other = planned(nearest([reference()], replace(HERE, cpu_model="Other CPU")))
    assert like.origin is not None
    assert other.origin is not None
    assert (like.origin.cost_factor, other.origin.cost_factor) == (LIKE_HOST_FACTOR, OTHER_HOST_FACTOR)
    assert own.brokers == like.brokers == other.brokers
    widths = [(made.brokers_high or 0) - (made.brokers_low or 0) for made in (own, like, other)]
    assert widths[0] < widths[1] < widths[2]
    assert "Other CPU instead of Example CPU" in "\n".join(lines(other))


def test_a_reference_on_another_architecture_is_not_near_enough() -> None:
    with pytest.raises(
        UsageError, match="the planned hosts are aarch64, and x86_64 was measured; highwater plan LOAD --measure 3min"
    ):
        nearest([reference()], replace(HERE, architecture="aarch64"))


def test_the_measurement_that_would_narrow_most() -> None:
    from_reference = planned(nearest([reference()], HERE))
    assert from_reference.narrowing is not None
    assert from_reference.narrowing.part == "costs"
    assert next_step(from_reference, "load.yaml").startswith("Measure what work costs your host (3 minutes, on a quiet")
    assert command_of(next_step(from_reference, "load.yaml")) == "highwater plan load.yaml --measure 3min"
    wanted = load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024}).model_copy(update={"range_ratio": 0.4})
    own = make_plan(wanted, measured(), date(2026, 11, 29))
    assert own.narrowing is not None
    assert own.narrowing.part == "load"
    assert command_of(next_step(own)).startswith("highwater monitor load-file")


def test_with_nothing_to_narrow_what_was_not_measured_comes_next() -> None:
    exact = measured(busiest=(1.0,), held_out=())
    made = make_plan(load().model_copy(update={"range_ratio": 0.0}), exact, date(2026, 11, 29))
    assert made.brokers_low == made.brokers_high
    assert made.narrowing is None
    assert next_step(made) == beyond_measured(made)[0].find_out
    assert next_step(replace(made, unknown=())) == ""


def test_brokers_that_are_asked_about_are_answered_from_a_reference() -> None:
    made = planned(nearest([reference()], HERE), brokers=9)
    assert " times this load (" in answer(made)
    assert made.narrowing is not None
    assert made.narrowing.low is not None
    assert "times this load" in next_step(made)


def test_each_host_is_predicted_from_the_nearest_other_from_three_kinds_on() -> None:
    def measuring(name: str, cores: float, **facts: Any) -> ReferenceFile:
        cells = (Prediction("held-out-read", cores, cores), Prediction("full", 9.0, 9.0 / cores, in_turn=True))
        return replace(reference(name, **facts), predictions=cells)

    hosts = [measuring("eight", 0.3), measuring("two", 0.36, cpu_count=2), measuring("again", 0.9, cpu_count=2)]
    assert nearest(hosts, HERE).reference.origin.left_out == ()  # type: ignore[union-attr]
    hosts[2] = measuring("other", 1.5, cpu_model="Other CPU", cpu_count=2)
    origin = nearest(hosts, replace(HERE, cpu_count=64)).reference.origin  # type: ignore[union-attr]
    found = {each.host: (each.predicted_from, round(each.ratio, 2)) for each in origin.left_out}
    assert found == {"eight": ("two", 1.2), "two": ("eight", 1.2), "other": ("two", 4.17)}
    assert origin.cost_factor == pytest.approx(1.5 / 0.36)
    made = planned(nearest(hosts, HERE))
    assert "costs were up to 4.2 times off (other from two, held-out-read)" in "\n".join(lines(made))


def test_what_a_host_measured_is_published_without_a_name_and_plans_alike(tmp_path: Path) -> None:
    run = write_ceilings(tmp_path / "secret-path" / "run")
    file = tmp_path / "published.json"
    done = CliRunner().invoke(app, ["bench", "publish-ceilings", str(run), "--out", str(file)])
    assert done.exit_code == 0, done.output
    text = file.read_text("utf-8")
    assert "secret-path" not in text
    assert "/" not in text.replace("capacity.reference/1", "").replace("bytes/s", "")
    own = json.loads(plan(EXAMPLE, "--ceilings", run, "--json").stdout)
    others = json.loads(plan(EXAMPLE, "--ceilings", tmp_path, "--json").stdout)
    assert others["brokers"] == own["brokers"]
    assert others["predictions"] == own["predictions"]
    assert others["state"]["demands"][0]["amount"] == pytest.approx(own["state"]["demands"][0]["amount"], rel=1e-6)
    assert others["brokers_low"] <= own["brokers_low"] <= own["brokers_high"] <= others["brokers_high"]
    for words, said in [
        ([run, "--out", file], f"--out: {file} exists; name a new file"),
        ([tmp_path / "none", "--out", tmp_path / "a.json"], f"{tmp_path / 'none'} is not a result directory"),
        ([run, "--out", tmp_path / "no" / "a.json"], f"--out: {tmp_path / 'no' / 'a.json'}: cannot write it: No such"),
    ]:
        wrong = CliRunner().invoke(app, ["bench", "publish-ceilings", *map(str, words)])
        assert wrong.exit_code == 2, wrong.output
        assert wrong.stderr.startswith(f"error: {said}")
        assert wrong.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON: highwater bench publish-ceilings writes such a file"),
        ('{"schema": "capacity.ceilings/1"}', "is not a file of capacity.reference/1"),
        ('{"schema": "capacity.reference/1"}', "is damaged: name, "),
        (reference().as_json().replace('"brokers"', '"coffee"'), "is damaged: coffee is no work of a broker"),
        (replace(reference(), disks=()).as_json(), "has no disk: publish a run with --storage data=DIRECTORY"),
    ],
)
def test_a_file_that_is_no_reference_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text, "utf-8")
    for named in (file, tmp_path):
        done = plan(EXAMPLE, "--ceilings", named)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {file} {said}")
        assert done.stderr.count("\n") == 1


def test_wrong_uses_are_one_line(tmp_path: Path) -> None:
    run = write_ceilings(tmp_path / "run")
    file = tmp_path / "example.json"
    file.write_text(reference().as_json(), "utf-8")
    (tmp_path / "empty").mkdir()
    for words, said in [
        (("--ceilings", run, "--ceilings", file), f"--ceilings: {run} is a result directory and {file} is not"),
        (("--ceilings", tmp_path / "none.json"), f"{tmp_path / 'none.json'}: cannot read it: No such file"),
        (("--ceilings", tmp_path / "empty"), f"{tmp_path / 'empty'} is not a result directory"),
        (("--out", tmp_path / "out", "--rehearse", "5%"), "--rehearse compares with ceilings of this host: add"),
    ]:
        done = plan(EXAMPLE, *words)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith(f"error: {said}")
        assert done.stderr.count("\n") == 1
