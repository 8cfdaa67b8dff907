"""The rules for loads of native clients, and the properties that wire_load understands.

rdkafka_performance is librdkafka's own C program: one producer or one consumer. wire_load sends one prepared request
again and again; it understands some of librdkafka's properties. wire_fetch reads one partition and does not parse its
records. Consumers start when all records are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.bench.workload.client_properties import to_librdkafka
from highwater.bench.workload.faults import Fault
from highwater.bench.workload.sections import Consumers, Load, Phases, Producers, Records, Topics, Trials
from highwater.bench.workload.system import SystemUnderTest
from highwater.bench.workload.values import FixedSize, Headers, KeyFaultError, SteadyWarmup

# The limit for a load whose size follows from a rate.
LARGEST_LOAD_BYTES: Final = 2 << 30
_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}
_IN_FLIGHT: Final = ("max.in.flight", "max.in.flight.requests.per.connection")
_KNOWN_TO_WIRE_LOAD: Final = ("acks", "batch.num.messages", *_IN_FLIGHT)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What wire_load sends: acks (-1 for all), records of each request, requests in flight on each connection."""

    acks: int
    records_per_request: int
    in_flight: int


def prepared_of(properties: Mapping[str, str]) -> Prepared:
    """properties: by librdkafka's names. Raises KeyFaultError for one that wire_load does not understand."""
    for name in properties:
        if name not in _KNOWN_TO_WIRE_LOAD:
            known = ", ".join(_KNOWN_TO_WIRE_LOAD)
            raise KeyFaultError(
                "producers", "client", name, text=f"is not understood by wire_load, which knows {known}"
            )
    in_flight = next((properties[name] for name in _IN_FLIGHT if name in properties), "5")
    acks = _ACKS[properties.get("acks", "all")]
    if acks == 0:
        raise KeyFaultError(
            "producers", "client", "acks", text="0 does not fit wire_load, which measures response times"
        )
    return Prepared(acks, int(properties.get("batch.num.messages", "1")), int(in_flight))


def check_native_load(producers: Producers, consumers: Consumers, records: Records, load: Load, phases: Phases) -> None:
    """Raises KeyFaultError for a load that native clients cannot generate."""
    if not isinstance(records.size, FixedSize) or records.payload_file is not None:
        raise KeyFaultError(
            "records", "size", text=f"needs one fixed size for {producers.driver}, which sends generated values"
        )
    if records.keys != "none" or records.headers != Headers():
        raise KeyFaultError("records", text=f"cannot have keys or headers with {producers.driver}; remove them")
    if producers.transactions is not None:
        raise KeyFaultError(
            "producers", "transactions", text=f"need producers.driver: client; {producers.driver} has no transactions"
        )
    if producers.driver == "wire_load":
        prepared_of(to_librdkafka("producer", producers.client))
    elif producers.count != 1:
        raise KeyFaultError("producers", "count", text="must be 1 for rdkafka_performance, which is one producer")
    elif load.model != "closed":
        raise KeyFaultError(
            "load", "model", text="must be closed for rdkafka_performance; an open loop needs wire_load"
        )
    if load.schedule is not None or load.trace is not None:
        raise KeyFaultError(
            "load",
            "schedule" if load.trace is None else "trace",
            text=f"does not fit {producers.driver}, which sends at one rate; use the driver client or wire",
        )
    if isinstance(phases.warmup, SteadyWarmup):
        raise KeyFaultError(
            "phases", "warmup", text=f"must be a duration for {producers.driver}, which reports totals only"
        )
    if not consumers.count:
        return
    if consumers.count != 1 or consumers.start != "after_load":
        raise KeyFaultError(
            "consumers", text="of a native load must be groups: 0, or one consumer with start: after_load"
        )
    if consumers.driver is None:
        raise KeyFaultError("consumers", "driver", text="is missing: rdkafka_performance or wire_fetch")


def check_native_run(
    topics: Topics, producers: Producers, system: SystemUnderTest, trials: Trials, faults: Sequence[Fault]
) -> None:
    """Raises KeyFaultError for topics, systems or faults that do not fit a native load."""
    if system.kind == "external":
        raise KeyFaultError("producers", "driver", text=f"{producers.driver} needs a system that this run starts")
    if topics.count != 1:
        raise KeyFaultError("topics", "count", text=f"must be 1 for {producers.driver}")
    if producers.driver == "wire_load" and producers.count % system.nodes:
        text = f"must be a multiple of system.nodes ({system.nodes}) for wire_load: each connection is to one broker"
        raise KeyFaultError("producers", "count", text=text)
    if faults:
        raise KeyFaultError("faults", text=f"need the driver client or wire; {producers.driver} reports totals only")
    if trials.at_once:
        raise KeyFaultError("trials", "at_once", text=f"needs the driver client or wire, not {producers.driver}")


def check_without_native(producers: Producers, consumers: Consumers, load: Load, system: SystemUnderTest) -> None:
    """Raises KeyFaultError for keys that only native clients have."""
    for section, key, given in (
        ("consumers", "driver", consumers.driver),
        ("consumers", "cold", consumers.cold),
        ("load", "records", load.records),
    ):
        if given is not None:
            text = f"is for the native producers rdkafka_performance and wire_load, not for {producers.driver}"
            raise KeyFaultError(section, key, text=text)
    if system.kind == "bare-loop":
        raise KeyFaultError("system", "kind", text="bare-loop works with native producers only (producers.driver)")
