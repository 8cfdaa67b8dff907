"""Proofs: measured effects of settings on this host, from trials with the setting off and on.

`highwater tune prove` measures and stores proofs, `explain` shows them. A proof is valid for the host, the workload and
the values that it names. A newer proof replaces an older one of the same subject.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ..common.units import change_size_text, change_span_text, change_text
from .errors import TuningError
from .hostfiles import HostFiles
from .journal import FOLDER, place_of

SCHEMA: Final = "tuning.proofs/1"
PROOFS: Final = f"{FOLDER}/proofs.json"

ProofVerdict = Literal["keep", "revert", "no_effect", "inconclusive"]
EffectOutcome = Literal[
    "better",
    "worse",
    "differs",  # a change of a metric for which neither direction is better
    "none_seen",  # no change beyond noise; `smallest_detectable_ratio` is the change that would have been seen
    "unknown",  # too few pairs
]
VERDICT_TEXTS: Final[dict[ProofVerdict, str]] = {
    "keep": "keep",
    "revert": "revert",
    "no_effect": "no measurable effect here",
    "inconclusive": "inconclusive",
}


@dataclass(frozen=True)
class ProvedSetting:
    """One knob of a proof. The values are the content of the kernel's file, or the mount option in force."""

    knob: str
    off: str
    on: str


@dataclass(frozen=True)
class MeasuredEffect:
    """One metric with the setting off and on. Ratios are on ÷ off; intervals contain the median with 95 %."""

    metric: str
    unit: str
    better: str
    """`higher`, `lower` or `none`."""
    decides: bool
    """Whether the verdict depends on it; the other metrics are only shown."""
    off: float
    on: float
    ratio: float | None
    low: float | None
    high: float | None
    smallest_detectable_ratio: float | None
    """The change (0.04: 4 %) that these trials detect with a probability of 80 %."""
    outcome: EffectOutcome


@dataclass(frozen=True)
class Proof:
    """The proof of one knob, or of knobs that were changed together."""

    settings: tuple[ProvedSetting, ...]
    verdict: ProofVerdict
    text: str
    """The verdict in a sentence."""
    effects: tuple[MeasuredEffect, ...]
    workload: str
    storage: str
    """Storage of the log: target, medium, file system."""
    pairs: int
    pairs_valid: int
    a_a_pairs: int
    environment: str
    """Key of the conditions (`highwater bench env`); figures under another key are not comparable."""
    measured_utc: str
    results: str
    """The result directory."""
    cells: tuple[str, str]
    """The cells of the result directory: off, on."""
    durability_trades: tuple[str, ...] = ()
    """Durability that was traded away during the measurement with the setting on."""

    @property
    def subject(self) -> str:
        return "+".join(setting.knob for setting in self.settings)

    @property
    def _same(self) -> tuple[object, ...]:
        return (self.settings, self.workload, self.storage, self.environment)


@dataclass(frozen=True)
class ProveDocument:
    """What `highwater tune prove --json` prints."""

    proofs: tuple[Proof, ...]
    schema: Literal["tuning.prove/1"] = "tuning.prove/1"


def read_proofs(files: HostFiles, path: str = PROOFS) -> list[Proof]:
    """All proofs, oldest first; none without a file. Raises TuningError for a file that is not valid."""
    text = files.read_verbatim(place_of(files, path))
    if text is None:
        return []
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}, not {SCHEMA!r}")
        return [proof_of(item) for item in document["proofs"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TuningError(f"{path} holds no readable proofs ({error}); move it away and prove again") from error


def proofs_of(knob_id: str, proofs: Iterable[Proof]) -> list[Proof]:
    """The proofs that changed the knob, newest first."""
    found = [proof for proof in proofs if any(setting.knob == knob_id for setting in proof.settings)]
    return sorted(found, key=lambda proof: proof.measured_utc, reverse=True)


def keep_proofs(files: HostFiles, new: Sequence[Proof], path: str = PROOFS) -> None:
    """Add proofs to the file. Raises TuningError when the file is damaged, OSError when it cannot be written."""
    replaced = {proof._same for proof in new}
    kept = [proof for proof in read_proofs(files, path) if proof._same not in replaced]
    document = {"schema": SCHEMA, "proofs": [as_json(proof) for proof in (*kept, *new)]}
    files.replace_file(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", 0o644)


def as_json(proof: Proof) -> dict[str, Any]:
    return dataclasses.asdict(proof)


def proof_of(fields: dict[str, Any]) -> Proof:
    """The proof that `as_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    if fields["verdict"] not in get_args(ProofVerdict):
        raise ValueError(f"no verdict is called {fields['verdict']!r}")
    off, on = fields["cells"]
    return Proof(
        **fields
        | {
            "settings": tuple(ProvedSetting(**setting) for setting in fields["settings"]),
            "effects": tuple(MeasuredEffect(**effect) for effect in fields["effects"]),
            "cells": (off, on),
            "durability_trades": tuple(fields.get("durability_trades", ())),
        }
    )


def effect_text(effect: MeasuredEffect) -> str:
    """`produce.p99 −12.3 % (−15 to −9.1 %)`; without a change, the smallest change that would have been seen."""
    if effect.ratio is None:
        return f"{effect.metric} has no ratio"
    change = f"{effect.metric} {change_text(effect.ratio)}"
    if effect.low is not None and effect.high is not None:
        change += f" ({change_span_text(effect.low, effect.high)})"
    if effect.outcome == "none_seen" and effect.smallest_detectable_ratio is not None:
        change += f", no change seen; {change_size_text(effect.smallest_detectable_ratio)} would have been"
    return change


def proof_lines(proof: Proof) -> list[str]:
    """Lines for `explain`: the settings with the verdict, then a line for each metric that decides the verdict."""
    values = "; ".join(
        f"{setting.off} → {setting.on}" if len(proof.settings) == 1 else f"{setting.knob} {setting.off} → {setting.on}"
        for setting in proof.settings
    )
    measured = f"{proof.measured_utc[:10]}, workload {proof.workload}, {proof.pairs_valid} pairs"
    trades = [f"durability traded away meanwhile: {trade}" for trade in proof.durability_trades]
    return [
        f"{values}: {VERDICT_TEXTS[proof.verdict]} ({measured}, environment {proof.environment})",
        proof.text,
        *(effect_text(effect) for effect in proof.effects if effect.decides),
        *trades,
        f"results: {proof.results}",
    ]
