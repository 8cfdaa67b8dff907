"""What the driver of a run publishes: begin and end of each load, and samples of its hosts.

Like the tasks, it never waits for the control broker, and whatever goes wrong there costs live figures alone.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException, Producer

from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.notes import EndNote, HostNote, MeasureNote, Note, TrialNote, encode_note
from highwater.results.host import HostSample
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress, TelemetryTarget

THIS_HOST: Final = "driver"
"""How the host of the run itself is named among the sampled ones."""
_FLUSH_S: Final = 3.0
_WAITING_MAX: Final = 10_000
_CONFIGURATION: Final[dict[str, Any]] = {
    "log_level": 0,
    "client.id": "highwater-telemetry-driver",
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    "linger.ms": 20,
    "queue.buffering.max.messages": _WAITING_MAX,
    "reconnect.backoff.max.ms": 2000,
}


class Sampled(Protocol):
    """A host whose samples can be taken while it is sampled: HostSampler or SampledHost."""

    def samples_from(self, position: int, t0_monotonic_s: float) -> tuple[list[HostSample], int]: ...


class TrialTelemetry:
    """The notes of one trial. Context manager around its load."""

    def __init__(self, control: ControlTopic, run: str, trial_id: str) -> None:
        self.name = f"{run}-{secrets.token_hex(4)}/{trial_id}"
        """No other attempt at this trial, and no other run, has this name."""
        self._control = control
        self._run = run
        self._trial_id = trial_id
        self._measure_start_s: int | None = None
        self._t0_ns: int | None = None
        self._positions: dict[str, int] = {}
        self._producer = Producer(
            {**_CONFIGURATION, **control.connection, "bootstrap.servers": control.bootstrap_servers}
        )

    def __enter__(self) -> TrialTelemetry:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.flush(_FLUSH_S)
        self._producer.purge()

    @property
    def target(self) -> TelemetryTarget:
        """Where the load's tasks send their messages."""
        control = self._control
        return TelemetryTarget(control.bootstrap_servers, control.topic, self.name, control.connection)

    def progressed(
        self,
        progress: Progress,
        plan: LoadPlan,
        cell: str,
        objectives: Mapping[str, str],
        hosts: Mapping[str, Sampled],
    ) -> None:
        """Call it about once a second while the load runs. hosts: all that are sampled, by name."""
        if progress.t0_ns is None:
            return
        if self._measure_start_s is None:
            self._measure_start_s, self._t0_ns = plan.warmup_max_s, progress.t0_ns
            self._send(self._trial_note(plan, cell, objectives, progress.t0_ns))
        if progress.measure_start_s != self._measure_start_s:
            self._measure_start_s = progress.measure_start_s
            self._send(MeasureNote(self.name, progress.measure_start_s))
        self._send_samples(hosts, progress.t0_ns)

    def ended(self, result: LoadResult, hosts: Mapping[str, Sampled]) -> None:
        """Call it when the load is over and its hosts are no longer sampled."""
        if self._t0_ns is not None:
            self._send_samples(hosts, self._t0_ns)
        state = "interrupted" if result.interrupted else "done"
        self._send(EndNote(self.name, int(result.measure_start_s), state))

    def _send_samples(self, hosts: Mapping[str, Sampled], t0_ns: int) -> None:
        for name, host in hosts.items():
            samples, self._positions[name] = host.samples_from(self._positions.get(name, 0), t0_ns / 1e9)
            for sample in samples:
                self._send(HostNote(self.name, name, sample.second, known_fields(sample)))
        self._producer.poll(0)

    def _trial_note(self, plan: LoadPlan, cell: str, objectives: Mapping[str, str], t0_ns: int) -> TrialNote:
        return TrialNote(
            trial=self.name,
            run=self._run,
            trial_id=self._trial_id,
            cell=cell,
            t0_unix_ns=time.time_ns() - time.monotonic_ns() + t0_ns,
            producers=plan.producers,
            consumers=plan.consumers,
            groups=plan.groups,
            warmup_max_s=plan.warmup_max_s,
            measure_s=plan.measure_s,
            closed_loop=plan.schedule is None,
            slo=objectives,
        )

    def _send(self, note: Note) -> None:
        with contextlib.suppress(BufferError, KafkaException):
            self._producer.produce(self._control.topic, value=encode_note(note), key=self.name.encode())


def known_fields(sample: HostSample) -> dict[str, float]:
    """The fields of a sample that this host reports, without its second."""
    return sample.model_dump(exclude={"second"}, exclude_none=True)
