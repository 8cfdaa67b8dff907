"""`highwater tune explain KNOB`: everything that is known about one knob, on this host and in general."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..boot_files.precedence import Boot, simulate_boot
from ..catalogue import find_knob
from ..change_status import ChangeStatus, state_text, status
from ..check import KnobReport, evaluate
from ..hostfiles import HostFiles
from ..model import Comparison, Knob
from ..proofs import Proof, proof_lines, proofs_of, read_proofs
from ..steps import SettingStep
from .documents import print_document
from .options import (
    THIS_HOST,
    BrokerConfigOption,
    DataDirOption,
    JsonOption,
    RootOption,
    UnitOption,
    WorkloadOption,
    errors_in_one_line,
    facts_of,
    workload_of,
)
from .printing import STATE_WORDS, console, merged, print_lines, print_pairs, targets_text

_ACCEPTED: Final[dict[Comparison, str]] = {
    "equal": "exactly",
    "at_least": "at least; a higher value is never lowered",
    "at_most": "at most; a lower value is never raised",
    "about": "within a factor 1.5",
}


@dataclass(frozen=True)
class ExplainDocument:
    id: str
    title: str
    detail: str
    accepted: str
    path: str
    formula_in_words: str
    here: tuple[KnobReport, ...]
    boot: tuple[str, ...]
    """Every file that sets it at boot; the last one wins."""
    ours: tuple[str, ...]
    """The changes that Highwater made to it."""
    proofs: tuple[Proof, ...]
    """Measurements of its effect on this host, the newest first."""
    schema: Literal["tuning.explain/1"] = "tuning.explain/1"


def explain(
    knob_id: Annotated[str, typer.Argument(metavar="KNOB", help="Knob to explain, as `highwater tune list` names it.")],
    root: RootOption = THIS_HOST,
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
    broker_config: BrokerConfigOption = None,
    unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a knob: what it does, its recommended value on this host with formula and sources, obstacles to a change,
    which file wins at boot, and what was measured here.

    Exit codes: 0, or 2 for an unknown knob or another usage error.
    """
    with errors_in_one_line():
        knob = find_knob(knob_id)
        inputs = workload_of(data_dir, workload, broker_config, unit)
        facts = facts_of(root)
        reports = evaluate(facts, inputs, [knob])
        boot = tuple(_boot_lines(knob, simulate_boot(facts.files)))
        ours = tuple(_changes_by_highwater(knob, facts.files))
        proofs = tuple(proofs_of(knob.id, read_proofs(facts.files)))
    if as_json:
        document = ExplainDocument(
            id=knob.id,
            title=knob.title,
            detail=knob.detail,
            accepted=_ACCEPTED[knob.comparison],
            path=knob.path,
            formula_in_words=knob.formula_in_words,
            here=tuple(reports),
            boot=boot,
            ours=ours,
            proofs=proofs,
        )
        print_document(document)
        return
    out = console()
    out.print(Text(f"{knob.id}: {knob.title}", style="bold"))
    out.print(Padding(f"{knob.reason} {knob.detail}", (0, 0, 1, 2)))
    for report, targets in merged(reports):
        _print_here(out, report, targets)
    print_lines(out, "At boot, the last one wins", boot)
    print_lines(out, "Changed by Highwater", ours)
    _print_proofs(out, knob, proofs)
    _print_everywhere(out, knob)


def _boot_lines(knob: Knob, boot: Boot) -> list[str]:
    return boot.explain(knob.id) if knob.mechanism == "sysctl" else []


def _changes_by_highwater(knob: Knob, files: HostFiles) -> list[str]:
    found = status(files)
    everything = (*found.session_changes, *found.changes)
    return [
        _change_text(held) for held in everything if isinstance(held.step, SettingStep) and held.step.knob_id == knob.id
    ]


def _change_text(held: ChangeStatus) -> str:
    before, ours, now = (state_text(held.resource, state) for state in (held.original, held.ours, held.now))
    text = f"{held.resource}: {before} before, {ours} applied"
    return text if held.standing == "in_force" else f"{text}, {now} now"


def _print_here(out: Console, report: KnobReport, targets: Sequence[str]) -> None:
    print_pairs(
        out,
        f"Here, on {targets_text(targets)}" if targets else "Here",
        [
            ("current", report.current_text),
            ("recommended", report.recommended_text),
            ("formula", report.formula),
            ("state", STATE_WORDS[report.state][0]),
            ("note", report.note),
            ("effect", report.binding),
            ("obstacle", report.obstacle if report.obstacle not in report.note else ""),
            ("to ask for", report.ask),
            ("another file wins", report.overridden_by),
        ],
    )


def _print_proofs(out: Console, knob: Knob, proofs: Sequence[Proof]) -> None:
    if not proofs:
        print_lines(out, "Proof", [f"not proved on this host: highwater tune prove {knob.id}"])
    for proof in proofs:
        first, *rest = proof_lines(proof)
        print_lines(out, f"Proof: {first}", rest)


def _print_everywhere(out: Console, knob: Knob) -> None:
    print_pairs(
        out,
        "What others recommend",
        [(authority.who, f"{authority.value}  [{authority.source.title}]") for authority in knob.authorities],
    )
    pairs: list[tuple[str, Any]] = [
        ("formula", knob.formula_in_words),
        ("accepted", _ACCEPTED[knob.comparison]),
        ("risk", f"{knob.risk}: {knob.risk_text}"),
        ("only if named", knob.only_if_named),
        ("lifetime", knob.lifetime.text),
        ("scope", knob.scope),
        ("who may set it", knob.capability),
        ("read from", knob.path),
        ("persisted in", knob.persistence),
    ]
    print_pairs(out, "About the knob", pairs)
    out.print(Text("Sources", style="bold"))
    for source in knob.sources:
        out.print(Padding(source.title, (0, 0, 0, 2)))
        out.print(Text(f"    {source.url}"), soft_wrap=True)
