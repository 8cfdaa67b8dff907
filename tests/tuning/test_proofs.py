"""Proofs are kept and found again, and told in lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.tuning.errors import TuningError
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.proofs import (
    PROOFS,
    MeasuredEffect,
    Proof,
    ProofVerdict,
    ProvedSetting,
    as_json,
    effect_text,
    keep_proofs,
    proof_lines,
    proof_of,
    proofs_of,
    read_proofs,
)


def effect(outcome: str = "none_seen", ratio: float | None = 0.88, *, decides: bool = True) -> MeasuredEffect:
    return MeasuredEffect(
        metric="produce.p99",
        unit="ns",
        better="lower",
        decides=decides,
        off=2e6,
        on=2e6 * (ratio or 0),
        ratio=ratio,
        low=None if ratio is None else ratio - 0.03,
        high=None if ratio is None else ratio + 0.03,
        smallest_detectable_ratio=0.041,
        outcome=outcome,  # type: ignore[arg-type]
    )


def proof(
    *knobs: str,
    verdict: ProofVerdict = "no_effect",
    measured_utc: str = "2026-01-01T00:00:00Z",
    environment: str = "abc",
    trades: tuple[str, ...] = (),
) -> Proof:
    return Proof(
        settings=tuple(ProvedSetting(knob, "60", "1") for knob in knobs or ("vm.swappiness",)),
        verdict=verdict,
        text="nothing changed beyond noise",
        effects=(effect(), effect(decides=False)),
        workload="prove-writes",
        storage="/data (sda, ext4)",
        pairs=8,
        pairs_valid=7,
        a_a_pairs=8,
        environment=environment,
        measured_utc=measured_utc,
        results="/results/prove-writes",
        cells=("variant=as-it-is", "variant=vm.swappiness=1"),
        durability_trades=trades,
    )


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    assert read_proofs(files) == []
    kept = [proof(trades=("commit=60 on /data: a crash may cost 60 s",)), proof("vm.dirty_bytes", "vm.swappiness")]
    keep_proofs(files, kept)
    assert read_proofs(files) == kept
    assert json.loads(files.locate(PROOFS).read_text())["proofs"][1]["settings"][0]["knob"] == "vm.dirty_bytes"
    assert all(proof_of(json.loads(json.dumps(as_json(item)))) == item for item in kept)


def test_a_newer_proof_of_the_same_takes_the_place_of_the_older_and_others_stay(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    keep_proofs(files, [proof(), proof("vm.dirty_bytes"), proof(environment="other host")])
    newer = proof(verdict="keep", measured_utc="2026-02-01T00:00:00Z")
    keep_proofs(files, [newer])
    found = read_proofs(files)
    assert [item.verdict for item in found] == ["no_effect", "no_effect", "keep"]
    assert proofs_of("vm.swappiness", found) == [newer, proof(environment="other host")]
    assert proofs_of("vm.dirty_bytes", found) == [proof("vm.dirty_bytes")]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x", "proofs": []}', '{"schema": "tuning.proofs/1"}'])
def test_a_damaged_file_is_one_line_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    files = HostFiles(tmp_path)
    files.replace_file(PROOFS, text, 0o644)
    with pytest.raises(TuningError, match=r"proofs\.json holds no readable proofs .*; move it away and prove again$"):
        keep_proofs(files, [proof()])
    assert files.locate(PROOFS).read_text() == text


def test_a_verdict_that_there_is_none_of_is_damage(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    keep_proofs(files, [proof()])
    files.replace_file(PROOFS, files.locate(PROOFS).read_text().replace("no_effect", "maybe"), 0o644)
    with pytest.raises(TuningError, match="no verdict is called 'maybe'"):
        read_proofs(files)


def test_what_explain_shows() -> None:
    assert proof_lines(proof(trades=("commit=60 on /data: a crash may cost 60 s",))) == [
        "60 → 1: no measurable effect here (2026-01-01, workload prove-writes, 7 pairs, environment abc)",
        "nothing changed beyond noise",
        "produce.p99 −12 % (−15 to −9 %), no change seen; 4.1 % would have been",
        "durability traded away meanwhile: commit=60 on /data: a crash may cost 60 s",
        "results: /results/prove-writes",
    ]
    assert proof_lines(proof("vm.dirty_bytes", "vm.swappiness"))[0].startswith(
        "vm.dirty_bytes 60 → 1; vm.swappiness 60"
    )


def test_a_figure_in_words() -> None:
    assert effect_text(effect("better")) == "produce.p99 −12 % (−15 to −9 %)"
    assert effect_text(effect(ratio=None)) == "produce.p99 has no ratio"
