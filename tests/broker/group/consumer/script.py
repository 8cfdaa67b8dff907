"""Runs scripts against a consumer group of KIP-848: each command, then what it answered, wrote and became.

A script is text for people: paragraphs of prose (`#`), and steps of a command line, `----`, and what comes of it.
Write new steps without an outcome and run `REWRITE_SCRIPTS=1 pytest tests/broker/group/consumer`, then read it.

    settings [interval=1000] [max_size=10] [assignors=uniform,range]
    topic NAME COUNT                    make, enlarge or, with 0, delete a topic
    assign [MEMBER=a:0,1+b:2]...        the target from now on; until then all is shared evenly
    join MEMBER [topics=a,b] [OPTION]...
    beat MEMBER EPOCH [OPTION]...       instance= rack= owned=a:0,1+b:2 topics= regex= assignor= rebalance=
    leave MEMBER EPOCH [instance=]
    classic MEMBER [OPTION]...          JoinGroup of a member of the classic protocol: topics= owned= instance= session=
                                        rebalance= protocols=range,even version=3; `-` for a member without an id
    sync MEMBER GENERATION [instance=]
    alive MEMBER GENERATION [instance=] Heartbeat of such a member
    advance MS                          time passes, and whose time is up goes
    resolve [NAME]...                   the names that regular expressions are matched against, if that is due now
    resolved                            and what comes of it
    fail                                the next records do not reach the log
    restart                             another broker reads what compaction left
    delete                              the group goes

Of records the key's kind is told first. `owned=` alone is nothing; `topics=` none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignor
from highwater.broker.group.consumer.classic_members import as_heartbeat, sync
from highwater.broker.group.consumer.classic_members import heartbeat as classic_heartbeat
from highwater.broker.group.consumer.events import (
    ConsumerSettings,
    Decision,
    HeartbeatAnswer,
    HeartbeatRequest,
    KnownTopic,
)
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.heartbeat import heartbeat, refusal
from highwater.broker.group.consumer.leaving import expire, leave
from highwater.broker.group.consumer.regexes import Resolved, is_due, resolve, resolved
from highwater.broker.group.consumer.schemas import (
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    Key,
    MemberTarget,
    ResolvedRegex,
    TargetEpoch,
    Value,
)
from highwater.broker.group.embedded import read_assignment
from highwater.broker.group.events import JoinRequest, Now, Protocol, SyncRequest
from highwater.broker.slices import run
from tests.broker.group.consumer.assigning import always, evenly
from tests.broker.group.consumer.partitions import name_of, partitions, told, told_with_epochs, topic_id
from tests.broker.group.consumer_bytes import subscription

SESSION_MS = 45_000
REFRESH_MS = 600_000


class Script:
    def __init__(self) -> None:
        self._now_ms = 100_000
        self._lines: list[str] = []
        self._group = ConsumerGroup("g")
        self._topics: dict[str, KnownTopic] = {}
        self._kept: dict[Key, Value] = {}
        self._assign: Assignor = evenly
        self._result: Resolved = {}
        self._fails = False
        self._names = 0
        self._configure()

    def _configure(self, interval: str = "0", max_size: str = "10", assignors: str = "uniform,range") -> None:
        self._interval_ms, self._max_size, self._assignors = int(interval), int(max_size), assignors.split(",")

    @property
    def _now(self) -> Now:
        return Now(self._now_ms, self._now_ms)

    @property
    def _settings_now(self) -> ConsumerSettings:
        assignors = dict.fromkeys(self._assignors, self._assign)
        return ConsumerSettings(SESSION_MS, 5_000, self._interval_ms, self._max_size, assignors)

    def run(self, line: str) -> list[str]:
        """What comes of one command, in lines."""
        self._lines = []
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        command: Callable[..., None] = getattr(self, f"_do_{name}")
        command(*plain, **options)
        return [*self._lines, self._state()]

    def _state(self) -> str:
        group = self._group
        members = " ".join(f"{name}@{current.epoch}" for name, current in group.current.items())
        return f"{group.state.value} {group.epoch}/{group.target_epoch}: {members or 'nobody'}"

    # Commands

    def _do_settings(self, **options: str) -> None:
        self._configure(**options)

    def _do_topic(self, name: str, count: str) -> None:
        self._topics[name] = KnownTopic(topic_id(name), int(count))
        if not int(count):
            del self._topics[name]
        self._group.is_metadata_stale = True

    def _do_assign(self, **targets: str) -> None:
        self._assign = always({name: partitions(target.replace("+", " ")) for name, target in targets.items()})

    def _do_join(self, member: str, **options: str) -> None:
        self._do_beat(member, "0", **{"topics": "", "owned": "", "rebalance": "300000"} | options)

    def _do_beat(
        self,
        member: str,
        epoch: str,
        instance: str | None = None,
        rack: str | None = None,
        owned: str | None = None,
        topics: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance: str = "-1",
    ) -> None:
        request = HeartbeatRequest(
            member,
            int(epoch),
            instance,
            rack,
            int(rebalance),
            None if topics is None else frozenset(topics.split(",")) - {""},
            regex,
            assignor,
            None if owned is None else partitions(owned.replace("+", " ")),
            "c",
            "/h",
        )
        refused = refusal("g", request, 1, self._assignors)
        if refused is not None:
            self._take(Decision(refused))
            return
        self._take(run(heartbeat(self._group, request, self._topics.get, self._settings_now, self._now)))

    def _do_leave(self, member: str, epoch: str, instance: str | None = None) -> None:
        self._take(leave(self._group, HeartbeatRequest(member, int(epoch), instance), self._topics.get))

    def _do_classic(
        self,
        member: str,
        topics: str = "",
        owned: str = "",
        instance: str | None = None,
        session: str = "30000",
        rebalance: str = "60000",
        protocols: str = "range",
        version: str = "3",
    ) -> None:
        held = {name_of(topic): indexes for topic, indexes in partitions(owned.replace("+", " ")).items()}
        metadata = subscription(topics.split(",") if topics else (), held, version=int(version))
        offered = tuple([Protocol(name, metadata) for name in protocols.split(",")])
        self._names += member == "-"
        new_id = f"new{self._names}" if member == "-" else member
        request = JoinRequest(
            "" if member == "-" else member, "consumer", offered, int(session), int(rebalance), instance, "c", "/h"
        )
        asked = as_heartbeat(self._group, new_id, request, self._topics.get)
        if isinstance(asked, ErrorCode):
            self._lines.append(asked.name)
            return
        decision = run(heartbeat(self._group, asked, self._topics.get, self._settings_now, self._now))
        answer = decision.answer
        joined = f"{new_id} joined generation {answer.member_epoch}"
        self._lines.append(answer.error_code.name if answer.error_code else joined)
        self._write(decision.records)
        if not answer.error_code:
            self._group.expect(new_id, self._now_ms, anew=True)

    def _do_sync(self, member: str, generation: str, instance: str | None = None) -> None:
        names = {topic_id(name): name for name in self._topics}
        answer = sync(self._group, SyncRequest(member, int(generation), instance), names.get)
        if answer.error_code:
            self._lines.append(answer.error_code.name)
            return
        self._group.heard(member, SESSION_MS, self._now_ms)
        self._group.answered(member)
        read = read_assignment(answer.assignment)
        assert read is not None
        shown = {topic_id(name): frozenset(indexes) for name, indexes in read.partitions.items()}
        self._lines.append(f"{answer.protocol_name}, assigned {told(shown) or 'nothing'}")

    def _do_alive(self, member: str, generation: str, instance: str | None = None) -> None:
        outcome = classic_heartbeat(
            self._group, member, instance, int(generation), self._topics.get, self._settings_now, self._now
        )
        self._lines.append(outcome.name)

    def _do_resolve(self, *names: str) -> None:
        if not is_due(self._group, REFRESH_MS, self._now):
            self._lines.append("not due")
            return
        patterns = sorted(self._group.regex_counts)
        self._lines.append(f"resolves {' '.join(patterns)}")
        self._result = run(resolve(patterns, names))

    def _do_resolved(self) -> None:
        self._write(resolved(self._group, self._result, self._topics.get, self._now))

    def _do_advance(self, duration_ms: str) -> None:
        until_ms = self._now_ms + int(duration_ms)
        while (wake_ms := self._group.wake_ms) is not None and wake_ms <= until_ms:
            self._lines.append(f"after {wake_ms - self._now_ms} ms:")
            self._now_ms = wake_ms
            self._write(expire(self._group, self._topics.get, self._now_ms))
        self._now_ms = until_ms

    def _do_fail(self) -> None:
        self._fails = True

    def _do_restart(self) -> None:
        records = [GroupRecord(key, value) for key, value in reversed(self._kept.items())]
        self._group, complaints = ConsumerGroup.loaded("g", records, SESSION_MS, self._now_ms)
        self._lines += complaints

    def _do_delete(self) -> None:
        self._write(self._group.tombstones())
        assert not self._kept
        self._group = ConsumerGroup("g")

    # What came of it

    def _take(self, decision: Decision) -> None:
        self._lines.append(_answer(decision.answer))
        self._write(decision.records)

    def _write(self, records: Sequence[GroupRecord]) -> None:
        if self._fails and records:
            self._fails = False
            self._lines.append("not written")
            return
        for key, value in records:
            self._lines.append(" ".join(filter(None, (f"  {key.kind.value}", key.name, _value(value)))))
            if value is None:
                self._kept.pop(key, None)
            else:
                self._kept[key] = value
        self._group.apply(records, SESSION_MS, self._now_ms)


def _answer(answer: HeartbeatAnswer) -> str:
    if answer.error_code:
        return f"{answer.error_code.name}: {answer.error_message}"
    assignment = "" if answer.assignment is None else f", assigned {told(answer.assignment) or 'nothing'}"
    return f"epoch {answer.member_epoch}{assignment}"


def _value(value: Value | None) -> str:
    if value is None:
        return "gone"
    if isinstance(value, GroupEpoch):
        return f"epoch {value.epoch}"
    if isinstance(value, TargetEpoch):
        return f"epoch {value.epoch} at {value.timestamp_ms}"
    if isinstance(value, ConsumerMember):
        fields = [value.instance_id, value.rack_id, f"topics {','.join(sorted(value.topics)) or '-'}"]
        fields += [value.regex, value.assignor]
        if value.classic is not None:
            fields.append(f"speaks {','.join(name for name, _ in value.classic.protocols)}")
        return " ".join(filter(None, fields))
    if isinstance(value, MemberTarget):
        return told(value.partitions) or "nothing"
    if isinstance(value, CurrentAssignment):
        pending = f"| {told_with_epochs(value.pending)}" if value.pending else ""
        epochs = f"{value.epoch}/{value.previous_epoch}"
        return " ".join(filter(None, (value.state.name, epochs, told_with_epochs(value.assigned), pending)))
    assert isinstance(value, ResolvedRegex)
    return ",".join(sorted(value.topics)) or "nothing"
