"""Verdicts of closed seconds: which there are, what their records say, and that each reaches the topic once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.notes import MeasureNote, TrialNote, encode_note
from highwater.bench.telemetry.topics import make_topic
from highwater.common.errors import UsageError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf
from highwater.studies.telemetry.live import Live
from highwater.studies.telemetry.rows import rows_of
from highwater.studies.telemetry.store import Store
from highwater.studies.telemetry.sums import summed
from highwater.studies.telemetry.verdict_topic import PARTITIONS, TOPIC, VerdictTopic
from highwater.studies.telemetry.verdicts import Verdict, record_of
from tests.broker.running import RunningBroker, running_broker
from tests.reading import read_to_end
from tests.studies.telemetry.messages import TRIAL, imagined_load, trial_note

LIVE_OBJECTIVES = ["produce.achieved_per_s", "produce.p99"]


class CrashError(Exception):
    pass


def take(store: Store, number: int, messages: list[bytes]) -> list[Verdict]:
    """One micro-batch in a process of its own. Returns its verdicts."""
    start, end = (Offsets({("hw.telemetry", 0): edge}) for edge in (number, number + 1))
    rows = summed(pa.Table.from_batches([rows_of(messages)]))
    changed = Live(store).take(rows, BatchOf("q", number, (end,), (start,)))
    return [verdict for one in changed for verdict in one.verdicts]


@pytest.mark.parametrize("seed", range(4))
def test_each_live_objective_has_one_verdict_for_each_measured_second(tmp_path: Path, seed: int) -> None:
    messages, random = list(imagined_load(seed).encoded()), Random(seed)
    with Store(tmp_path, create=True) as store:
        found, number = [], 0
        while messages:
            count = random.randrange(1, 12)
            found += take(store, number, messages[:count])
            assert take(store, number, messages[:count]) == []  # Spark repeats the micro-batch
            messages, number = messages[count:], number + 1
        assert [verdict for _, verdict in store.verdicts_from(0, 1000)] == found
        stored = {one["second"]: one for one in store.seconds(TRIAL)}
        late = store.sums(TRIAL).late_seconds  # type: ignore[union-attr]
    assert sorted((verdict.second, verdict.objective) for verdict in found) == [
        (second, objective) for second in range(2, 8) for objective in LIVE_OBJECTIVES
    ]
    for verdict in found:
        if verdict.second not in late:
            assert verdict.value == stored[verdict.second]["objectives"][verdict.objective]
            assert verdict.met == stored[verdict.second]["met"][verdict.objective]


def test_a_second_is_judged_once_however_late_its_notes_and_records_come(tmp_path: Path) -> None:
    load = imagined_load(3)
    (note, *samples), messages = load.notes, [message.encode() for message in load.messages]
    assert isinstance(note, TrialNote)
    with Store(tmp_path, create=True) as store:
        assert take(store, 0, [encode_note(one) for one in samples[:-1]] + messages[:12]) == []  # no objective is known
        first = take(store, 1, [encode_note(note)])
        assert {verdict.second for verdict in first} == {2}  # of four seconds told, two are warm-up and one is open
        # The load was steady earlier than planned: a second that was closed as warm-up is of the measured phase.
        second = take(store, 2, [encode_note(MeasureNote(TRIAL, 1))])
        assert {verdict.second for verdict in second} == {1}
        rest = take(store, 3, messages[12:])
        seconds = Counter(verdict.second for verdict in [*first, *second, *rest])
    assert seconds == dict.fromkeys(range(1, 7), len(LIVE_OBJECTIVES))


def test_a_record_names_what_was_judged() -> None:
    verdict = Verdict(TRIAL, "produce.p99", "<50ms", 31, 18e6, True, None, None)
    key, value = record_of(verdict)
    assert key == b"run-1a2b/base-1/produce.p99"
    assert json.loads(value) == {
        "version": 1,
        "trial": "run-1a2b/base-1",
        "objective": "produce.p99",
        "bound": "<50ms",
        "second": 31,
        "value": 18e6,
        "met": True,
        "so_far": None,
        "so_far_met": None,
    }


@pytest.fixture
def control(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "control") as broker:
        yield broker


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_crash_around_the_commit_loses_and_repeats_no_record(
    tmp_path: Path, control: RunningBroker, monkeypatch: pytest.MonkeyPatch, after_commit: bool
) -> None:
    class Crashing(Producer):
        def commit_transaction(self, *arguments: float) -> None:
            if after_commit:
                super().commit_transaction(*arguments)
            raise CrashError

    make_topic(control.address, {}, TOPIC, PARTITIONS)
    topic = ControlTopic(control.address, TOPIC)
    with Store(tmp_path, create=True) as store:
        take(store, 0, list(imagined_load(0).encoded()))
        with monkeypatch.context() as patch:
            patch.setattr("highwater.studies.telemetry.verdict_topic.Producer", Crashing)
            with VerdictTopic(topic, store) as crashing, pytest.raises(CrashError):
                crashing.send_new()
        with VerdictTopic(topic, store) as again:
            again.send_new()
            take(store, 1, list(imagined_load(1, trial_note(trial="run/2")).encoded()))
            again.send_new()
            with VerdictTopic(topic, store) as other:
                other.send_new()
            take(store, 2, list(imagined_load(2, trial_note(trial="run/3")).encoded()))
            with pytest.raises(UsageError, match=r"verdicts cannot be sent to topic hw.verdicts at .*they are stored"):
                again.send_new()  # another process has taken over
        with VerdictTopic(topic, store) as last:
            last.send_new()
        stored = [record_of(verdict) for _, verdict in store.verdicts_from(0, 1000)]
    assert len(stored) == 3 * 6 * len(LIVE_OBJECTIVES)
    assert [(each.key, each.value) for each in read_to_end(control.address, TOPIC)] == stored
