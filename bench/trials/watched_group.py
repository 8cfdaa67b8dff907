"""The consumer group of a trial: starts members, has them join, leave and die, reads what they wrote.

Members are processes of this host. Each writes to a file of its own, which outlives a member that is killed. Like the
injector of faults this has no thread: the thread that watches the load calls it about ten times a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from highwater.bench.trials.rebalances import ChangeMark, Counted, Owned, Partition, Read, membership_changes
from highwater.bench.workload.client_properties import to_librdkafka
from highwater.bench.workload.rebalance import Rebalance
from highwater.common.errors import TrialError, UsageError
from highwater.results.models import EventLine
from highwater.results.rebalance import Rebalances
from highwater.spark_loadgen.model import Progress

_FORMED_WITHIN_S: Final = 60.0
# The client's words where ApiVersions does not have ConsumerGroupHeartbeat, or not the version that it needs.
_NOT_SERVED: Final = "API version not supported: ConsumerGroupHeartbeat"
_LEFT_WITHIN_S: Final = 10.0
_SETTLED_NS: Final = 8_000_000_000
_DONE: Final = {"join": "joins", "leave": "leaves", "kill": "killed"}


@dataclass(slots=True)
class _Member:
    process: subprocess.Popen[bytes]
    output: Path
    gone: bool = False

    def command(self, line: str) -> None:
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):  # `problem` reports a member that has ended
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it wrote; the last line may be half of one."""
        for line in self.output.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


class WatchedGroup:
    """Enter it when the topics are there, and call `form` before the load. Without a `rebalance:` it does nothing."""

    def __init__(
        self,
        wanted: Rebalance | None,
        topics: Sequence[str],
        partitions: int,
        bootstrap_servers: str,
        connection: Mapping[str, str],
    ) -> None:
        self._wanted = wanted
        self._topics = list(topics)
        self._partitions = [(topic, partition) for topic in topics for partition in range(partitions)]
        self._pending = list(wanted.changes) if wanted else []
        self._members: list[_Member] = []
        self._marks: list[ChangeMark] = []
        self._t0_ns: int | None = None
        self._measure_start_s = 0
        self._stack = ExitStack()
        self._properties: dict[str, Any] = {}
        if wanted is not None:
            self._properties = {
                "log_level": 0,  # errors come as lines of the member's output
                "group.id": f"highwater-rebalance-{topics[0]}",
                "auto.offset.reset": "earliest",
                # See the loads' own consumers: a full queue must not stop a member for a second.
                "fetch.queue.backoff.ms": 10,
                **to_librdkafka("consumer", wanted.client),
                **wanted.properties,
                **connection,
                "bootstrap.servers": bootstrap_servers,
                "enable.auto.offset.store": False,
            }

    def __enter__(self) -> Self:
        if self._wanted is not None:
            joins = sum(change.do == "join" for change in self._pending)
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="highwater-group-")))
            # Those that join later are started now, too: what a new Python takes is no part of a rebalance.
            for number in range(1, self._wanted.members + joins + 1):
                self._members.append(self._start(number, folder / f"{number}.jsonl"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            if member.process.stdin is not None:
                with suppress(BrokenPipeError):
                    member.process.stdin.close()  # it leaves the group and ends
        deadline_s = time.monotonic() + _LEFT_WITHIN_S
        for member in self._members:
            try:
                member.process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        self._stack.close()

    def _start(self, number: int, output: Path) -> _Member:
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "highwater.bench.trials.group_member"],
                stdin=subprocess.PIPE,
                stdout=file,
                start_new_session=True,  # Ctrl-C is for the run, which ends its members
            )
        member = _Member(process, output)
        properties = {**self._properties, "client.id": f"highwater-member-{number}"}
        member.command(json.dumps({"properties": properties, "topics": self._topics}))
        return member

    def form(self, checkpoint: Callable[[], None]) -> None:
        """Have the first members join, and wait until each partition has its member. Raises TrialError, UsageError."""
        if self._wanted is None:
            return
        first = self._members[: self._wanted.members]
        deadline_s = time.monotonic() + _FORMED_WITHIN_S
        while not all(any("ready" in line for line in member.lines()) for member in self._members):
            self._go_on(deadline_s, checkpoint, "its members do not start")
        for member in first:
            member.command("join")
        while not self._all_assigned():
            self._go_on(deadline_s, checkpoint, "not every partition has a member")

    def _go_on(self, deadline_s: float, checkpoint: Callable[[], None], why: str) -> None:
        checkpoint()
        fatal = self._fatal()
        if fatal is not None and _NOT_SERVED in fatal:
            raise UsageError(
                "the brokers do not serve rebalance.protocol: consumer; have their group.version 1, or write classic"
            )
        if (problem := fatal or self.problem()) is not None:
            raise TrialError(problem)
        if time.monotonic() > deadline_s:
            errors = sorted({line["error"] for member in self._members for line in member.lines() if "error" in line})
            raise TrialError(f"the group was not formed within {_FORMED_WITHIN_S:.0f} s: {'; '.join(errors) or why}")
        time.sleep(0.1)

    def _all_assigned(self) -> bool:
        owners, last_ns = dict[Partition, int](), 0
        for event in sorted(self._owned(), key=lambda event: event.at_ns):
            last_ns = event.at_ns
            for partition in event.partitions:
                if event.given:
                    owners[partition] = event.member
                elif owners.get(partition) == event.member:
                    del owners[partition]
        wanted = 0 if self._wanted is None else min(self._wanted.members, len(self._partitions))
        if len(owners) < len(self._partitions):
            return False
        # An assignor may leave a member without a partition: then a group is formed that no longer changes.
        return len(set(owners.values())) == wanted or time.monotonic_ns() - last_ns > _SETTLED_NS

    def problem(self) -> str | None:
        """Why the group cannot go on; None while it can."""
        for number, member in enumerate(self._members, 1):
            if not member.gone and member.process.poll() is not None:
                return f"member {number} of the group ended with exit status {member.process.returncode}"
        return None

    def _fatal(self) -> str | None:
        """A client's own last word. It reads all that members wrote, so it is not for the time of the load."""
        for number, member in enumerate(self._members, 1):
            for line in member.lines():
                if line.get("fatal"):
                    return f"member {number} of the group: {line['error']}"
        return None

    def progressed(self, progress: Progress) -> None:
        self._t0_ns, self._measure_start_s = progress.t0_ns, progress.measure_start_s

    def run_due(self) -> None:
        """Make the change that is due."""
        if self._t0_ns is None or not self._pending:
            return
        change = self._pending[0]
        if time.monotonic_ns() < self._t0_ns + (self._measure_start_s + change.at_s) * 1_000_000_000:
            return
        self._pending.pop(0)
        number = change.member or self._joined + 1
        member = self._members[number - 1]
        self._marks.append(ChangeMark(change.do, number, time.monotonic_ns()))
        if change.do == "kill":
            member.process.kill()
        else:
            member.command(change.do)
        member.gone = change.do != "join"

    @property
    def _joined(self) -> int:
        """How many have joined so far."""
        first = self._wanted.members if self._wanted else 0
        return first + sum(mark.do == "join" for mark in self._marks)

    def _owned(self) -> Iterator[Owned]:
        for number, member in enumerate(self._members, 1):
            for line in member.lines():
                if "given" in line:
                    partitions = tuple((topic, partition) for topic, partition in line["partitions"])
                    yield Owned(line["at_ns"], number, partitions, line["given"])

    def _reads(self) -> Iterator[Read]:
        for number, member in enumerate(self._members, 1):
            for line in member.lines():
                for topic, partition, first, last, count in line.get("reads", ()):
                    yield Read(line["at_ns"], number, (topic, partition), first, last, count)

    def figures(self, acked: Sequence[int], measure_end_s: float) -> Rebalances | None:
        """Call it after the load, while the members are there. acked: by whole second since T0.

        Raises TrialError when a change was not made, or a member failed.
        """
        if self._wanted is None or self._t0_ns is None:
            return None
        if (problem := self._fatal() or self.problem()) is not None:
            raise TrialError(problem)
        if self._pending:
            raise TrialError(f"the load ended before the change at {self._pending[0].at_s} s of the measured phase")
        second_ns, counted = 1_000_000_000, Counted.of(self._reads())
        end_ns = self._t0_ns + round(measure_end_s * second_ns)
        assignor = next(iter(value for name, value in self._wanted.properties.items() if name != "group.protocol"))
        return Rebalances(
            protocol=self._wanted.protocol,
            assignor=str(assignor),
            changes=membership_changes(
                self._marks, counted, self._owned(), self._partitions, acked, self._t0_ns, end_ns
            ),
            received=counted.received,
            skipped=counted.skipped,
        )

    def events(self) -> list[EventLine]:
        t0_ns = self._t0_ns or 0
        return [
            EventLine(
                at_s=round((mark.at_ns - t0_ns) / 1e9, 3),
                kind="membership",
                text=f"member {mark.member} {_DONE[mark.do]}",
            )
            for mark in self._marks
        ]
