"""Answers of a host's agent as JSON, and what is none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from highwater.common.host_answer import (
    AnswerError,
    BrokerProcess,
    Cpu,
    Disk,
    Drift,
    HostAnswer,
    LogDirectory,
    Memory,
    Network,
    Tuning,
    parse_answer,
)

ANSWER = HostAnswer(
    host="h3",
    boot_id="b",
    at_ms=1_000,
    monotonic_ms=5,
    kernel="6.1.0",
    version="0.2.0",
    cpu=Cpu(2, 1.5, 0.0, 10.0),
    memory=Memory(100, 50, 40, 1, 2, 0, None, 20),
    network=Network(1, 2, 3),
    pressure_s={"io_some": 0.5},
    disks=(Disk("sda", "hdd", 1, 2, 3, 4, 5),),
    directories=(LogDirectory("/var/lib/a", 1, "c", ("sda",), "xfs", 10, 5, 3, 2, 1),),
    brokers=(BrokerProcess(1, "c", 7, 1, 2.0, 3, 4, 5, {"x_total": 1.0}),),
    tuning=Tuning("f", "apply", "2026", 3, 1, (Drift("vm.dirty_ratio", "", "10", "20"),)),
    problems=("<b>",),
)


def changed(**keys: Any) -> str:
    return json.dumps(json.loads(ANSWER.as_json()) | keys)


def test_an_answer_is_read_as_it_was_written() -> None:
    assert parse_answer(ANSWER.as_json()) == ANSWER
    bare = replace(ANSWER, tuning=None, disks=(), brokers=())
    assert parse_answer(bare.as_json().encode()) == bare


def test_what_a_newer_agent_adds_is_left_out() -> None:
    assert parse_answer(changed(moon="full")) == ANSWER


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not answer in JSON"),
        ("<html>", "does not answer in JSON"),
        ("[" * 100_000, "does not answer in JSON"),
        (b"\xff\xfe", "does not answer in JSON"),
        ("[]", "no agent of Highwater"),
        ('{"status": "ok"}', "no agent of Highwater"),
        (changed(schema="host.agent/2"), "speaks host.agent/2, and this program host.agent/1"),
        (changed(kernel=6), "damaged: kernel has another type"),
        (changed(cpu=None), "damaged: cpu has another type"),
        (changed(cpu={"count": 2}), "damaged: busy_s, steal_s, total_s of cpu missing"),
        (changed(at_ms=float("nan")), "at_ms has another type"),
        (changed(at_ms=float("inf")), "at_ms has another type"),
        (changed(at_ms=10**400), "at_ms has another type"),
        (changed(at_ms=1.5), "at_ms has another type"),
        (changed(at_ms=True), "at_ms has another type"),
        (changed(pressure_s={"io_some": "much"}), "pressure_s.io_some has another type"),
        (changed(disks=[{"name": "sda"}]), "of disks missing"),
        (changed(disks="sda"), "disks has another type"),
    ],
)
def test_what_is_no_answer_is_said_in_one_sentence(text: str | bytes, said: str) -> None:
    with pytest.raises(AnswerError, match=said):
        parse_answer(text)


def test_a_drift_names_both_values() -> None:
    assert Drift("vm.dirty_ratio", "", "10", "20").sentence == "vm.dirty_ratio is 20, applied was 10"
    assert Drift("scheduler", "sda", "none", "").sentence == "scheduler of sda is ?, applied was none"
