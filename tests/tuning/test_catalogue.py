"""The catalogue agrees with itself, with its schema, and with everything that is made of it."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from highwater.tuning import catalogue, model
from highwater.tuning.catalogue import KNOBS, find_knob, page, select_knobs
from highwater.tuning.catalogue.export import disagree
from highwater.tuning.check import evaluate, report_on, sysctl_path
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts
from highwater.tuning.formulas.targets import targets_of
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Knob, NotApplicable, Observation, Target
from highwater.tuning.planning import make_plan
from highwater.tuning.planning.draft import PlanOptions
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import Disk, make_host
from tests.tuning.surveyed_settings import KNOBS_OF_SETTING

REPOSITORY = Path(__file__).parents[2]
SCHEMA = json.loads((REPOSITORY / "tuning/schemas/knob.schema.json").read_text("utf-8"))
WORKLOADS = (Workload(data_dirs=("/data",)), Workload(data_dirs=("/data", "/nowhere"), broker="apache-kafka"))
CEILINGS = (
    {"vm.max_map_count", "vm.min_free_kbytes", "fs.file-max", "fs.nr_open", "fs.aio-max-nr"}
    | {"unit.limit_nofile", "unit.tasks_max", "unit.limit_nproc", "unit.memory_high", "unit.memory_max"}
    | {"login.nofile", "login.memlock", "net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_rmem"}
    | {"net.ipv4.tcp_wmem", "net.core.somaxconn"}
)
DURABILITY_TRADES = ("mount.data_writeback", "mount.commit")


def test_ids_are_unique() -> None:
    assert len({knob.id for knob in KNOBS}) == len(KNOBS) >= 80


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.id)
def test_an_entry_has_the_form_of_the_schema(knob: Knob) -> None:
    jsonschema.validate(catalogue.export.knob_as_json(knob), SCHEMA)


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("group", model.Group),
        ("mechanism", model.Mechanism),
        ("scope", model.Scope),
        ("unit", model.Unit),
        ("comparison", model.Comparison),
        ("risk", model.Risk),
        ("persistence", model.Persistence),
    ],
)
def test_the_schema_knows_the_words_of_the_model(name: str, alias: object) -> None:
    assert SCHEMA["properties"][name]["enum"] == list(typing.get_args(alias))


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.id)
def test_the_parts_of_a_knob_fit_together(knob: Knob) -> None:
    assert all(source.url for source in knob.sources), "what we recommend can be looked up"
    if knob.mechanism == "sysctl":
        assert knob.path == sysctl_path(knob.id)
        assert knob.persistence == "sysctl.d"
    else:
        assert knob.field is None or knob.path.startswith("/proc/sys/")
        assert knob.twin is None
    assert knob.path.startswith("/") or knob.observe is not None
    kept_by_us = knob.persistence not in ("nothing", "file system", "boot line", "link file")
    # An interrupt has another number after each restart, so that no file can keep what is set for it.
    assert kept_by_us == (knob.mechanism != "advice") or knob.scope == "interrupt"
    if knob.scope == "unit":
        assert knob.unit_property
        assert knob.observe is not None
    if knob.scope in ("disk", "receive queue", "transmit queue", "frequency policy") and knob.observe is None:
        assert "{target}" in knob.path


def test_a_ceiling_comes_before_what_it_bounds() -> None:
    order = [knob.id for knob in KNOBS]
    assert order.index("fs.nr_open") < order.index("unit.limit_nofile")
    assert order.index("fs.nr_open") < order.index("login.nofile")
    assert order.index("vm.dirty_background_bytes") < order.index("vm.dirty_bytes")


@pytest.mark.parametrize("knob_id", sorted(CEILINGS))
def test_a_ceiling_is_never_lowered(knob_id: str, facts: Facts) -> None:
    high = 2**60
    knob = dataclasses.replace(find_knob(knob_id), observe=lambda _facts, _target: Observation(high, str(high)))
    for target in targets_of(knob.scope, facts, WORKLOADS[0]) or ("",):
        report = report_on(knob, facts, WORKLOADS[0], target, named=frozenset({knob_id}))
        assert knob.comparison == "at_least"
        assert (report.state, report.recommended) in (("ok", high), ("not_applicable", None))


@pytest.mark.parametrize("knob_id", DURABILITY_TRADES)
def test_a_durability_trade_is_left_alone_until_it_is_named(knob_id: str, facts: Facts) -> None:
    knob = find_knob(knob_id)
    assert knob.only_if_named
    (report,) = evaluate(facts, WORKLOADS[0], [knob])
    assert report.state == "left_alone"
    assert not make_plan(facts, WORKLOADS[0], [knob]).steps
    (accepted,) = evaluate(facts, WORKLOADS[0], [knob], named=frozenset({knob_id}))
    assert accepted.state == "differs"


def test_what_is_critical_is_never_made_less_safe() -> None:
    critical = {knob.id for knob in KNOBS if knob.risk == "critical"}
    assert {"disk.write_cache", "mount.barrier"} <= critical
    for knob_id in critical - {"mount.barrier"}:  # that one only ever puts a missing barrier back
        knob = find_knob(knob_id)
        assert knob.mechanism == "advice" or knob.only_if_named


def test_advice_is_never_changed(facts: Facts) -> None:
    advice = [knob for knob in KNOBS if knob.mechanism == "advice"]
    assert len(advice) >= 5
    assert make_plan(facts, WORKLOADS[0], advice).steps == ()
    with pytest.raises(TuningError, match=r"clock\.sync is checked and explained, but never changed"):
        make_plan(facts, WORKLOADS[0], advice, PlanOptions(named=frozenset({"clock.sync"})))


def test_every_setting_that_was_surveyed_became_knobs() -> None:
    assert set(KNOBS_OF_SETTING) == set(range(1, 81))
    named = [knob_id for ids in KNOBS_OF_SETTING.values() for knob_id in ids]
    assert {knob.id for knob in KNOBS} >= set(named)
    assert len(named) == len(set(named))


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.id)
def test_a_formula_answers_on_any_host(knob: Knob, facts: Facts, tmp_path: Path) -> None:
    nothing = Facts(files=HostFiles(tmp_path))
    for present in (facts, nothing, *_each_fact_missing(facts)):
        for workload in WORKLOADS:
            for target in targets_of(knob.scope, present, workload) or ("", "nothing"):
                answer = knob.recommend(present, workload, target)
                assert isinstance(answer, Target | NotApplicable)
                assert answer.formula if isinstance(answer, Target) else answer.reason
                if knob.observe is not None:
                    assert knob.observe(present, target).text


def test_the_page_is_the_catalogue() -> None:
    assert (REPOSITORY / "docs/tuning-knobs.md").read_text("utf-8") == page.render(KNOBS), (
        "run: python -m highwater.tuning.catalogue > docs/tuning-knobs.md"
    )


def test_the_page_shows_every_authority_and_where_they_disagree() -> None:
    text = page.render(KNOBS)
    for knob in KNOBS:
        assert f"### {knob.id}\n" in text
        for authority in knob.authorities:
            assert f"- {authority.who}: {authority.value} (" in text
    disagreements = text.partition("## Where the authorities disagree")[2].partition("## Knob by knob")[0]
    for knob_id in ("thp.enabled", "swap.devices", "vm.dirty_bytes", "disk.nomerges", "cpu.boost", "mount.delalloc"):
        assert f"[{knob_id}]" in disagreements
        assert disagree(find_knob(knob_id))


def test_the_exported_catalogue_holds_every_knob_in_order() -> None:
    document = json.loads(json.dumps(catalogue.as_json()))
    assert document["schema"] == "tuning.catalogue/1"
    assert [entry["id"] for entry in document["knobs"]] == [knob.id for knob in KNOBS]


def test_an_unknown_knob_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(TuningError, match=r"unknown knob 'vm\.swapiness'; did you mean vm\.swappiness\?"):
        find_knob("vm.swapiness")


def test_selection_keeps_the_order_of_the_catalogue_and_takes_skips_away() -> None:
    chosen = select_knobs(["unit.limit_nofile", "fs.nr_open", "vm.swappiness"], ["vm.swappiness"])
    assert [knob.id for knob in chosen] == ["fs.nr_open", "unit.limit_nofile"]
    assert select_knobs(["all"]) == KNOBS
    assert select_knobs([]) == ()
    with pytest.raises(TuningError, match="unknown knob 'nonsense'"):
        select_knobs(["all"], ["nonsense"])


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    disks = (Disk("sda", "/data", rotational=True, mount_options="rw,relatime"), Disk("nvme0n1", "/data/fast"))
    return collect(make_host(tmp_path_factory.mktemp("host"), disks=disks, swaps="/dev/sdb1 partition 1048576 0 -2\n"))


def _each_fact_missing(facts: Facts) -> list[Facts]:
    """Copies of the facts, in each of which one is unknown: None where that is how it is said, else empty."""
    hints = typing.get_type_hints(Facts)
    nothing = Facts(files=facts.files)
    copies = []
    for field in dataclasses.fields(Facts):
        may_be_none = types.NoneType in typing.get_args(hints[field.name])
        unknown: dict[str, Any] = {field.name: None if may_be_none else getattr(nothing, field.name)}
        copies.append(dataclasses.replace(facts, **unknown))
    return copies
