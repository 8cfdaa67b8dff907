"""A system that this run has started: its brokers, and what they cannot run without."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.bench.systems.process import SystemProcess
from highwater.common.errors import TrialError


class StartedSystem:
    """Leaving the context ends every process. `attendants` (ZooKeeper) end last, and are no brokers in any figure.

    proxy: what clients connect to in place of the brokers. Its processor time is not that of the brokers.
    """

    def __init__(
        self,
        kind: str,
        version: str,
        brokers: Sequence[SystemProcess],
        attendants: Sequence[SystemProcess] = (),
        proxy: SystemProcess | None = None,
    ) -> None:
        self.kind = kind
        self.version = version
        self.brokers = list(brokers)
        self.attendants = list(attendants)
        self._proxies = [] if proxy is None else [proxy]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if len(self.brokers) > 1:
            self.kill()  # the last ones of a cluster would wait long for others who could lead
        for process in self._processes:
            process.stop()

    @property
    def _processes(self) -> list[SystemProcess]:
        return [*self._proxies, *self.brokers, *self.attendants]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(process.address for process in self._proxies or self.brokers)

    @property
    def nodes(self) -> list[SystemProcess]:
        return self.brokers

    @property
    def commands(self) -> list[list[str]]:
        return [broker.command for broker in self.brokers]

    @property
    def process_ids(self) -> list[int]:
        return [process_id for broker in self.brokers for process_id in broker.process_ids]

    @property
    def attendant_process_ids(self) -> list[int]:
        return [process_id for attendant in self.attendants for process_id in attendant.process_ids]

    def problem(self) -> str | None:
        """One line about the first process that has ended."""
        return next(filter(None, (process.problem() for process in self._processes)), None)

    def kill(self) -> None:
        """End the brokers as a crash would."""
        for broker in self.brokers:
            broker.kill()


def await_members(system: StartedSystem, count: int, checkpoint: Callable[[], None], within_s: float) -> None:
    """Until metadata names so many brokers. Raises TrialError when one ends before, or the time is up."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap_servers, "log_level": 0})
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        checkpoint()
        if (problem := system.problem()) is not None:
            raise TrialError(problem)
        try:
            if len(admin.list_topics(timeout=1).brokers) == count:
                return
        except KafkaException:
            pass  # not one of them answers yet
        time.sleep(0.02)
    raise TrialError(f"the {count} brokers are not one cluster within {within_s:.0f} s")
