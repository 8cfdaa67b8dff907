"""Runs scripts against a classic group: each command, then what the group answered, stored and became.

A script is text for people: paragraphs of prose (`#`), and steps of a command line, `----`, and what comes of it.
Write new steps without an outcome and run `REWRITE_SCRIPTS=1 pytest tests/broker/group`, then read what it wrote.

    settings delay=3000 max_size=10          a new group; the initial delay is 0 unless it is told
    join R client [member=] [instance=] [protocols=a,b] [metadata=x] [session=] [rebalance=] [known] [skips]
    sync R member generation [protocol=] [assign=member:x,member:y]
    heartbeat member generation [instance=]
    leave member... | instance=...
    commit member generation [instance=]
    advance MS                               time passes, and what falls due happens in order
    hold | stored ok|ERROR                   from now on storing waits; the oldest one ends
    restart                                  the group as the last thing stored has it
    die ERROR

R names a request, so that its answer can be seen to come, maybe later. Members that the group names are m1, m2 ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import (
    Answer,
    Committer,
    Effect,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Now,
    Protocol,
    Store,
    StoredGroup,
    SyncAnswer,
    SyncRequest,
)
from highwater.broker.group.rebalance import GroupSettings
from highwater.broker.group.schemas import decode_group

_WALL_MS: Final = 1_700_000_000_000


class Script:
    def __init__(self) -> None:
        self._now_ms = 0
        self._lines: list[str] = []
        self._stores: deque[Store] = deque()
        self._is_holding = False
        self._last_stored: StoredGroup | None = None
        self._waiting: set[str] = set()
        self._configure()

    def _configure(self, delay: str = "0", max_size: str = "1000") -> None:
        numbers = count(1)
        self._limits = GroupSettings(int(delay), int(max_size), lambda: f"m{next(numbers)}", GroupCounters())
        self._group = ClassicGroup("g", self._limits)

    @property
    def _now(self) -> Now:
        return Now(self._now_ms, _WALL_MS + self._now_ms)

    def run(self, line: str) -> list[str]:
        """What comes of one command, in lines."""
        self._lines = []
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        command: Callable[..., None] = getattr(self, f"_{name}")
        command(*plain, **options)
        return [*self._lines, self._state()]

    def _state(self) -> str:
        group = self._group
        members = " ".join(
            member.member_id
            + ("*" if group.members.is_leader(member.member_id) else "")
            + ("(joining)" if member.join else "(syncing)" if member.sync else "")
            for member in group.members
        )
        pending = f" pending {' '.join(group.pending_members)}" if group.pending_members else ""
        return f"{group.state.value} generation {group.generation_id}: {members or 'nobody'}{pending}"

    # Commands

    def _settings(self, **options: str) -> None:
        self._configure(**options)

    def _join(
        self,
        request: str,
        client: str,
        *flags: str,
        member: str = "",
        instance: str | None = None,
        protocols: str = "range",
        metadata: str = "",
        session: str = "10000",
        rebalance: str = "60000",
        type: str = "consumer",  # noqa: A002 - the script's word
    ) -> None:
        assert set(flags) <= {"known", "skips"}, flags
        offered = tuple(Protocol(name, f"{metadata or client}".encode()) for name in protocols.split(",") if name)
        join = JoinRequest(
            member, type, offered, int(session), int(rebalance), instance, client, "/test", "known" in flags,
            "skips" in flags,
        )  # fmt: skip
        self._apply(self._group.join(join, self._ask(request, _tell_join), self._now))

    def _sync(
        self, request: str, member: str, generation: str, protocol: str = "", instance: str | None = None,
        assign: str = "",
    ) -> None:  # fmt: skip
        assignments = dict(word.split(":") for word in assign.split(",") if word)
        sync = SyncRequest(
            member, int(generation), instance, None, protocol or None,
            {name: text.encode() for name, text in assignments.items()},
        )  # fmt: skip
        self._apply(self._group.sync(sync, self._ask(request, _tell_sync), self._now))

    def _heartbeat(self, member: str, generation: str, instance: str | None = None) -> None:
        self._lines.append(self._group.heartbeat(member, instance, int(generation), self._now).name)

    def _leave(self, *members: str, instance: str | None = None) -> None:
        leavers = [Leaver(member) for member in members] or [Leaver("", instance)]

        told: list[ErrorCode] = []
        self._apply(self._group.leave(leavers, told.extend, self._now))
        self._lines.insert(0, " ".join(outcome.name for outcome in told))

    def _commit(self, member: str, generation: str, instance: str | None = None) -> None:
        committer = Committer("" if member == "-" else member, instance, int(generation))
        refusal = self._group.check_commit(committer, (), self._now)
        self._lines.append("none" if refusal is None else refusal.name)

    def _advance(self, duration_ms: str) -> None:
        until_ms = self._now_ms + int(duration_ms)
        while (wake_ms := self._group.wake_ms) is not None and wake_ms <= until_ms:
            self._now_ms = max(self._now_ms, wake_ms)
            self._apply(self._group.tick(self._now))
        self._now_ms = until_ms

    def _hold(self) -> None:
        self._is_holding = True

    def _stored(self, outcome: str) -> None:
        store = self._stores.popleft()
        error = ErrorCode.none if outcome == "ok" else ErrorCode[outcome]
        self._apply(self._group.stored(store, error, self._now))

    def _restart(self) -> None:
        assert self._last_stored is not None
        self._waiting.clear()
        self._group = ClassicGroup.restored("g", self._limits, self._last_stored, self._now)

    def _die(self, error: str) -> None:
        self._apply(self._group.die(ErrorCode[error]))
        assert not self._waiting, f"never answered: {self._waiting}"

    # Effects

    def _ask(self, request: str, tell: Callable[[JoinAnswer | SyncAnswer], str]) -> Callable[..., None]:
        assert request not in self._waiting, f"{request} waits already"
        self._waiting.add(request)

        def answer(value: JoinAnswer | SyncAnswer) -> None:
            self._waiting.remove(request)
            prefix = f"{self._now_ms} ms: " if self._now_ms else ""
            self._lines.append(f"{prefix}{request} <- {tell(value)}")

        return answer

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                effect.deliver()
                continue
            assert isinstance(effect, Store)
            ((_, value),) = effect.records
            assert value is not None
            stored = decode_group(value)
            members = " ".join(f"{member.member_id}={member.assignment.decode() or '-'}" for member in stored.members)
            self._lines.append(f"store generation {stored.generation_id} {stored.protocol_name}: {members or 'nobody'}")
            self._last_stored = stored
            if self._is_holding:
                self._stores.append(effect)
            else:
                self._apply(self._group.stored(effect, ErrorCode.none, self._now))


def _tell_join(value: JoinAnswer | SyncAnswer) -> str:
    assert isinstance(value, JoinAnswer)
    if value.error_code:
        return f"{value.error_code.name} member {value.member_id!r}"
    members = " ".join(f"{member.member_id}:{member.metadata.decode()}" for member in value.members)
    return (
        f"joined generation {value.generation_id} as {value.member_id}, {value.protocol_name}, leader {value.leader_id}"
        + (f", members {members}" if members else "")
        + (", skip assignment" if value.skip_assignment else "")
    )


def _tell_sync(value: JoinAnswer | SyncAnswer) -> str:
    assert isinstance(value, SyncAnswer)
    if value.error_code:
        return value.error_code.name
    return f"assigned {value.assignment.decode() or '-'}"
