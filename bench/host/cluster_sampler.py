"""Samples the hosts of an external cluster: one connection to the sampler of each.

A fault of a sampler costs its samples and is reported; it ends no trial.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from highwater.bench.host.sampler import Readings
from highwater.bench.host.sampling_service import SampleRequest, SampleResponse
from highwater.bench.workload.clusters import Cluster, ClusterHost
from highwater.common.errors import UsageError
from highwater.results.host import HostSample

# A sampler is a process that starts on connection: on a small, busy host Python starts slowly.
_FIRST_READING_WITHIN_S: Final = 20.0
_CONNECT_TIMEOUT_S: Final = 5.0
# A sampler sends a line every second.
_SILENCE_S: Final = 15.0


class ClusterSampler:
    """Receives from the sampler of each host that has one, from `__enter__` to `__exit__`."""

    def __init__(self, cluster: Cluster | None) -> None:
        hosts = cluster.hosts if cluster is not None else {}
        self.hosts: Mapping[str, SampledHost] = {name: SampledHost(name, host) for name, host in hosts.items()}

    def __enter__(self) -> ClusterSampler:
        for host in self.hosts.values():
            host.ask()
        deadline_s = time.monotonic() + _FIRST_READING_WITHIN_S
        for host in self.hosts.values():
            host.await_first_reading(deadline_s)
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            host.say_enough()
        for host in self.hosts.values():
            host.end()

    def system_cpu_s(self) -> float | None:
        """CPU seconds of the cluster's brokers; None unless every host has reported."""
        return _sum([host.system_cpu_s() for host in self.hosts.values()])


class SampledHost:
    """One host's sampler, received in its own thread. `problem`: why samples are missing, or None."""

    def __init__(self, name: str, described: ClusterHost) -> None:
        self.name = name
        self.described = described
        self.problem: str | None = None
        self._readings = Readings()
        self._latest: SampleResponse | None = None
        self._clock_offset_s = float("inf")
        self._socket: socket.socket | None = None
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"sampler-{name}", daemon=True)

    def ask(self) -> None:
        """Connect and send the question, without waiting for an answer."""
        sampler = self.described.sampler
        if sampler is None:
            self._first.set()
            return
        storage = self.described.storage
        question = SampleRequest(
            brokers=sampler.brokers,
            attendants=sampler.attendants,
            generator=sampler.generator,
            device=storage.device if storage else None,
        )
        host, _, port = sampler.address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S)
            self._socket.settimeout(_SILENCE_S)
            self._socket.sendall(question.as_line())
        except OSError as error:
            self.problem = f"its sampler at {sampler.address} does not answer: {error.strerror or error}"
            self._first.set()
            return
        self._thread.start()

    def await_first_reading(self, deadline_s: float) -> None:
        """Wait for the first reading. Raises nothing: a host that does not answer has no samples."""
        if not self._first.wait(max(0.0, deadline_s - time.monotonic())):
            self.problem = f"its sampler reported nothing within {_FIRST_READING_WITHIN_S:g} s"

    def say_enough(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """After `say_enough`: wait for the last reading."""
        if self._thread.is_alive():
            self._thread.join(_SILENCE_S)
        if self._socket is not None:
            self._socket.close()

    def samples(self, t0_monotonic_s: float) -> list[HostSample]:
        """The samples in this host's clock; the offset of the other clock comes from the fastest reading."""
        return self._readings.samples(t0_monotonic_s - self._clock_offset_s)

    def samples_from(self, position: int, t0_monotonic_s: float) -> tuple[list[HostSample], int]:
        """See `Readings.samples_from`; while it samples, by the offset of the clocks as known now."""
        return self._readings.samples_from(position, t0_monotonic_s - self._clock_offset_s)

    def system_cpu_s(self) -> float | None:
        return self._readings.system_cpu_s()

    def _listen(self) -> None:
        assert self._socket is not None
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._take(SampleResponse.parse(line), time.monotonic())
        except (OSError, ValueError, TypeError, LookupError) as error:
            self.problem = f"its sampler broke off: {error}"
        else:
            if self._latest is None:
                self.problem = self.problem or "its sampler said nothing"
            elif self._latest.reading is not None:
                self._readings.finish(self._latest.reading)
        self._first.set()

    def _take(self, answer: SampleResponse, now_s: float) -> None:
        if answer.problem is not None:
            self.problem = f"its sampler does not sample: {answer.problem}"
        if answer.missing:
            self.problem = f"{', '.join(answer.missing)} did not run there"
        if answer.reading is None:
            return
        self._clock_offset_s = min(self._clock_offset_s, now_s - answer.reading.monotonic_s)
        # The last reading belongs to the end; it is known as the last one when no other follows.
        if self._latest is not None and self._latest.reading is not None:
            self._readings.take(self._latest.reading)
        self._latest = answer
        self._first.set()


def check_samplers(name: str, cluster: Cluster) -> None:
    """Check before a run that every sampler answers and that its units run. Raises UsageError."""
    with ClusterSampler(cluster) as sampler:
        pass
    for host in sampler.hosts.values():
        if host.problem is not None:
            raise UsageError(
                f"system.clusters.{name}.hosts.{host.name}: {host.problem}; start it there (highwater bench host "
                "sample), or leave sampler out"
            )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
