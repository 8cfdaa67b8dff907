"""The page of a plan: the decision first, then why, then what would change it; and the file that it is made from."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.reports import markdown, page
from highwater.reports.blocks import Headline
from highwater.reports.plan import plan_document
from highwater.studies.capacity.load import Growth, Load
from highwater.studies.capacity.plan import Plan, make_plan
from highwater.studies.capacity.stored import PLAN_FILE, plan_of, plan_text
from highwater.studies.capacity.text import evidence, headline
from tests.studies.capacity.ceilings_run import write_ceilings
from tests.studies.capacity.samples import TEXT, load, load_with, measured

TODAY = date(2026, 11, 27)
HOSTILE = "<script>alert(1)</script>"


def plan(wanted: Load | None = None, brokers: int | None = None, **known: Any) -> Plan:
    return make_plan(wanted or load(), measured(noise=0.03, **known), TODAY, brokers)


def html(made: Plan, load_text: str = "") -> str:
    return page.render(plan_document(made, load_text))


def test_the_decision_comes_first_then_why_then_what_would_change_it() -> None:
    growing = load().model_copy(update={"growth": Growth.model_validate({"per_month": "4%", "months": 24})})
    text = html(plan(growing), TEXT)
    places = [
        text.index(part)
        for part in (
            "Decision</h2>",
            "3 brokers",
            "all that a plan may use",
            "Next:",
            "The answer in full",
            "How sure: ",
            "With 4\N{NO-BREAK SPACE}% more each month",
            "Why: what the busiest broker needs",
            "results/ceilings</td>",
            "What would change it",
            "a quarter more of all rates",
            "Can the costs be believed?",
            "What is not known, and what finds it out",
            "schema: capacity.load/1",
        )
    ]
    assert places == sorted(places)
    assert "planned on 2026-11-27 from 45 trials of results/ceilings" in text


def test_what_goes_beyond_the_measurements_is_on_the_first_screen() -> None:
    lead = html(plan(load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024}))).partition("<nav")[0]
    assert "It is not known what batches of 1\N{NO-BREAK SPACE}KiB cost (orders)" in lead


def test_a_load_that_does_not_fit() -> None:
    few = plan(load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024}), brokers=3)
    assert isinstance(first := plan_document(few).lead[0].blocks[0], Headline)
    assert first.tone == "bad"
    assert "3 brokers do not carry this load" in html(few)
    none = plan(process_bytes=64e9)
    assert "No number of brokers carries this load: the memory does not become less" in html(none)
    assert "1 broker is too few" in html(plan(brokers=1))


def test_the_first_sentence_has_three_figures_and_its_doubts() -> None:
    small = load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024})
    for brokers, begin in ((None, "10 brokers ("), (3, "3 brokers do not carry this load, which needs about 10; ")):
        said = headline(plan(small, brokers))
        assert said.startswith(begin)
        assert len(re.findall(r"\d+", said)) <= 3
        assert said.endswith("; in doubt: the load goes beyond what was measured")
    # What never ends has no place in a picture.
    endless = plan(load_with(cluster={"recovery_s": 3600.0}, hosts={"network_bytes_per_s": 30e6}), brokers=3)
    drawn = evidence(endless)
    assert drawn is not None
    assert (drawn.rows[0].figure, drawn.rows[0].interval) == ("never", None)
    assert "never" in html(endless).partition("<nav")[0]


def test_without_held_out_cells_nobody_is_sure() -> None:
    made = replace(plan(), predictions=())
    assert "how far the costs are from cells that they were not fitted to is not known" in html(made)
    assert "Can the costs be believed?" not in html(made)


def test_markdown_has_the_same() -> None:
    made = plan()
    text = markdown.render(plan_document(made, TEXT))
    assert "## Decision" in text
    assert "## Why: what the busiest broker needs" in text
    for topic in made.topics:
        assert f"| {topic.name} |" in text


def test_names_are_shown_as_text() -> None:
    text = html(replace(plan(), runs=(HOSTILE,), name=HOSTILE), HOSTILE)
    assert HOSTILE not in text
    assert "<span>capacity plan</span>" in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 3


def test_a_plan_that_was_kept_is_the_same_again() -> None:
    for made in (plan(), plan(brokers=1), plan(brokers=4), plan(process_bytes=64e9)):
        assert plan_of(plan_text(made), PLAN_FILE) == made
    # Nothing is spare for a recovery.
    endless = plan(load_with(cluster={"recovery_s": 3600.0}, hosts={"network_bytes_per_s": 30e6}), brokers=3)
    assert endless.state is not None
    assert math.isinf(endless.state.recovery_s)
    assert plan_of(plan_text(endless), PLAN_FILE) == endless
    assert "never" in html(endless)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "plan.json is not JSON: make the plan again with highwater plan --out DIR"),
        ("[]", "plan.json is not a plan of this version (capacity.plan/2)"),
        ('{"schema": "capacity.plan/9"}', "plan.json is not a plan of this version (capacity.plan/2)"),
        ('{"schema": "capacity.plan/2"}', "plan.json is damaged"),
        (json.dumps(json.loads(plan_text(plan())) | {"fits": "perhaps"}), "plan.json is damaged"),
    ],
)
def test_what_is_no_plan(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of(text, "plan.json")
    assert str(caught.value).startswith(said)


def test_from_files_to_a_page(tmp_path: Path) -> None:
    ceilings, kept, wanted = write_ceilings(tmp_path / "ceilings"), tmp_path / "kept", tmp_path / "load.yaml"
    wanted.write_text(TEXT, "utf-8")
    done = run("plan", wanted, "--ceilings", ceilings, "--out", kept)
    assert done.exit_code == 0, done.output
    assert done.stderr == f"{kept}: the plan; now: highwater report {kept}\n"
    assert (kept / "load.yaml").read_text("utf-8") == TEXT
    done = run("report", kept)
    assert (done.exit_code, done.stdout) == (0, f"{kept / 'report.html'}\n"), done.output
    assert "Decision</h2>" in (kept / "report.html").read_text("utf-8")
    again = run("plan", wanted, "--ceilings", ceilings, "--out", kept)
    assert (again.exit_code, again.stderr) == (2, f"error: --out: {kept} exists and is not an empty directory\n")
    watched = run("report", kept, "--watch")
    assert (watched.exit_code, watched.stderr.count("\n")) == (2, 1)
    (kept / "plan.json").write_text("{}", "utf-8")
    damaged = run("report", kept)
    assert damaged.exit_code == 2
    assert damaged.stderr.startswith(f"error: {kept / 'plan.json'} is not a plan of this version")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def test_what_comes_next_names_the_load_file_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(TEXT)
    kept = tmp_path / "kept"
    assert run("plan", tmp_path / "shop.yaml", "--out", kept).exit_code == 0
    assert run("report", kept).exit_code == 0
    assert f"highwater plan {kept}/load.yaml --measure 3min" in (kept / "report.html").read_text("utf-8")
