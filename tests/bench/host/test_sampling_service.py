"""A host's sampler over pipes, as systemd gives it a socket and ssh gives it pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict

import pytest

from highwater.bench.host.sampling_service import SampleRequest, SampleResponse, main_processes_of, serve


@contextmanager
def sampler(question: bytes, main_processes: dict[str, int]) -> Iterator[tuple[int, int]]:
    """Yields the ends to talk at: what it reads from, what it writes to."""
    from_us, to_it = os.pipe()
    from_it, to_us = os.pipe()

    def look_up(units: Sequence[str]) -> list[int]:
        return [main_processes[unit] for unit in units]

    thread = threading.Thread(target=serve, args=(from_us, to_us, look_up))
    os.write(to_it, question)
    thread.start()
    try:
        yield to_it, from_it
    finally:
        with suppress(OSError):  # the test may have closed it
            os.close(to_it)
        thread.join()
        for end in (from_us, from_it, to_us):
            os.close(end)


def line_from(end: int) -> SampleResponse:
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(end, 1)
    return SampleResponse.parse(line)


def test_it_tells_of_the_units_that_it_is_asked_for_until_the_other_side_has_heard_enough() -> None:
    question = SampleRequest(brokers=["broker.service"], generator=["worker.service"])
    running = {"broker.service": os.getpid(), "worker.service": 0}
    with sampler(question.as_line(), running) as (to_it, from_it):
        first = line_from(from_it)
        os.close(to_it)
        last = line_from(from_it)
    assert first.reading is not None
    assert last.reading is not None
    assert first.missing == []
    assert last.reading.counters["system_cpu_ratio"] >= first.reading.counters["system_cpu_ratio"] > 0
    assert first.reading.gauges["system_rss_bytes"] > 1 << 20
    assert "generator_cpu_ratio" not in first.reading.counters
    assert last.reading.monotonic_s >= first.reading.monotonic_s


def test_a_broker_that_does_not_run_is_named() -> None:
    with sampler(SampleRequest(brokers=["broker.service"]).as_line(), {"broker.service": 0}) as (_, from_it):
        answer = line_from(from_it)
    assert answer.missing == ["broker.service"]
    assert answer.reading is not None
    assert "system_cpu_ratio" not in answer.reading.counters


def test_a_broker_that_was_started_anew_is_another_epoch() -> None:
    old = subprocess.Popen(["sleep", "60"])
    running = {"broker.service": old.pid}
    try:
        with sampler(SampleRequest(brokers=["broker.service"]).as_line(), running) as (_, from_it):
            first = line_from(from_it)
            running["broker.service"] = os.getpid()
            old.kill()
            old.wait()
            second, third = line_from(from_it), line_from(from_it)
    finally:
        old.kill()
        old.wait()
    assert first.reading is not None
    assert second.reading is not None
    assert third.reading is not None
    assert (first.reading.epoch, second.reading.epoch, third.reading.epoch) == (0, 1, 1)
    assert "system_cpu_ratio" not in second.reading.counters
    assert "system_cpu_ratio" in third.reading.counters


@pytest.mark.parametrize(
    "question",
    [b"\n", b"[]\n", b"hello\n", b'{"brokers": "broker.service"}\n', b'{"brokers": ["--all"]}\n', b'{"device": 7}\n'],
)
def test_what_is_no_question_is_told_so(question: bytes) -> None:
    with sampler(question, {}) as (_, from_it):
        answer = line_from(from_it)
    assert answer.reading is None
    assert answer.problem is not None
    assert answer.problem.startswith("this is not a question that a sampler knows")


def test_a_line_survives_the_way() -> None:
    question = SampleRequest(brokers=["a.service"], attendants=["b.service"], device="sda+sdb")
    assert SampleRequest.parse(question.as_line()) == question
    with sampler(question.as_line(), {"a.service": os.getpid(), "b.service": 0}) as (_, from_it):
        answer = line_from(from_it)
    assert asdict(SampleResponse.parse(answer.as_line())) == asdict(answer)


def test_the_command_answers_on_its_standard_output() -> None:
    command = [sys.executable, "-m", "highwater", "bench", "host", "sample"]
    done = subprocess.run(command, input=SampleRequest().as_line(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert json.loads(lines[0])["reading"]["counters"]["other_cpu_ratio"] > 0


def test_units_that_systemd_does_not_know_do_not_run() -> None:
    assert main_processes_of(["no-such-unit-of-ours.service"]) == [0]
