"""`highwater tune waits`: the answer, its table, and what lies behind it."""

from __future__ import annotations

import dataclasses
import io
import os

import pytest
from rich.console import Console

from highwater.tuning.cli.waits import WaitsDocument, print_waits
from highwater.tuning.waits.summary import Waits
from tests.tuning.cli.invoking import assert_refused, invoke

COMMIT = Waits(
    "main thread", True, "pwrite64", "journal_commit", "the journal of the file system was committed",
    "wait_transaction_locked", 9, 0.9, 0.412, ("mount.commit", "filesystem.type"),
)  # fmt: skip
FLUSH = Waits(
    "flush", False, "fdatasync", "flush", "what the program flushed was written to the disk",
    "jbd2_log_wait_commit", 400, 8.0, 0.5, ("disk.write_cache",),
)  # fmt: skip
UNKNOWN = dataclasses.replace(
    COMMIT, cause="other", text="another reason", function="nfs_wait", count=1, total_s=0.1, longest_s=0.1, knobs=()
)
FOUND = WaitsDocument(
    processes=(812,),
    seconds=30.0,
    at_least_s=0.001,
    waits=(COMMIT, UNKNOWN, FLUSH),
    waited_for_processor_s=0.0,
    lost_events=0,
    has_ended=False,
)


def printed(found: WaitsDocument, width: int = 200) -> str:
    file = io.StringIO()
    print_waits(Console(file=file, width=width, highlight=False), found)
    return file.getvalue()


def test_the_answer_is_the_first_sentence() -> None:
    first, _, table, *_ = printed(FOUND).split("\n")
    assert first == (
        "In 30 s threads that answer clients waited 10 times for 1 ms or more in the kernel: 412 ms at most, 1 s "
        "together. 90 % of it: the journal of the file system was committed."
    )
    assert table.split() == ["threads", "call", "waited", "for", "times", "longest", "together"]


def test_rows_name_what_is_unknown_and_knobs_are_those_of_clients() -> None:
    text = printed(FOUND)
    assert "another reason (nfs_wait)" in text
    assert "Knobs that change it: mount.commit, filesystem.type." in text
    assert "disk.write_cache" not in text


def test_nothing_that_clients_feel() -> None:
    text = printed(dataclasses.replace(FOUND, waits=(FLUSH,)))
    assert text.startswith(
        "In 30 s no thread that answers clients waited 1 ms or more in the kernel. Only other threads did.\n"
    )
    assert "Knobs" not in text
    assert printed(dataclasses.replace(FOUND, waits=())) == (
        "In 30 s no thread that answers clients waited 1 ms or more in the kernel.\n\n"
    )


def test_what_makes_the_answer_less_sure_is_said() -> None:
    text = printed(dataclasses.replace(FOUND, lost_events=3, has_ended=True, waited_for_processor_s=1.5, seconds=12.0))
    assert text.startswith("In 12 s, until process 812 ended, threads that answer clients waited 10 times")
    assert "3 events came faster than they were read and are lost" in text
    assert "no processor was free, for 1.5 s (12.5 % of the time)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("999999999",), "there is no process 999999999; name one that runs"),
        (("no-such-unit.service",), "'no-such-unit.service' is "),
        ((str(os.getpid()), "--seconds", "0"), "--seconds 0 is not above 0 and at most 3600"),
        ((str(os.getpid()), "--seconds", "nan"), "--seconds nan is not above 0"),
        ((str(os.getpid()), "--at-least", "3"), "--at-least: '3' is not a duration with its unit"),
    ],
)
def test_a_mistake_in_the_call(arguments: tuple[str, ...], message: str) -> None:
    assert_refused(invoke("waits", *arguments), message)


def test_only_root_reads_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert_refused(invoke("waits", str(os.getpid())), "the kernel's trace is for root; call this with sudo")
