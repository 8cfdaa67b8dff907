"""Messages of an imagined load: many tasks, random latencies, some acknowledged seconds later."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from highwater.bench.telemetry.notes import EndNote, HostNote, Note, TrialNote
from highwater.results.histogram import Histogram
from highwater.spark_loadgen.telemetry.message import TaskMessage

TRIAL = "run-1a2b/base-1"


@dataclass
class ImaginedLoad:
    """What was said, and all raw values behind it: metric -> second -> latencies in ns."""

    notes: list[Note]
    messages: list[TaskMessage]
    values: Mapping[str, Mapping[int, list[int]]]
    counts: Mapping[str, Counter[int]] = field(default_factory=dict)

    def encoded(self) -> Iterator[bytes]:
        from highwater.bench.telemetry.notes import encode_note

        yield from map(encode_note, self.notes)
        yield from (message.encode() for message in self.messages)


def trial_note(**changes: object) -> TrialNote:
    fields: dict[str, object] = {
        "trial": TRIAL,
        "run": "run",
        "trial_id": "base-1",
        "cell": "base",
        "t0_unix_ns": 1_700_000_000_000_000_000,
        "producers": 2,
        "consumers": 1,
        "groups": 1,
        "warmup_max_s": 2,
        "measure_s": 6,
        "closed_loop": False,
        "slo": {"produce.p99": "<50ms", "produce.achieved_per_s": ">=10/s", "delivery.lost": "==0"},
        **changes,
    }
    return TrialNote(**fields)  # type: ignore[arg-type]


def imagined_load(seed: int, note: TrialNote | None = None, *, hosts: int = 2) -> ImaginedLoad:
    """Every record is timed. Records that are due in a second are told in it, or up to four seconds later."""
    random, note = Random(seed), note or trial_note()
    seconds = note.warmup_max_s + note.measure_s
    values: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    messages = []
    for task in range(note.tasks):
        producer = task < note.producers
        metrics = ("produce_response", "produce_service", "send_delay") if producer else ("e2e_response",)
        said: defaultdict[int, defaultdict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        rows: dict[str, Counter[int]] = defaultdict(Counter)
        for second in range(seconds):
            for _ in range(random.randrange(0, 40)):
                told = min(seconds, second + random.choice((0, 0, 0, 0, 1, 1, 2, 4)))
                for metric in metrics:
                    value = int(random.lognormvariate(16, 1.5))
                    values[metric][second].append(value)
                    said[told][metric, second].append(value)
                rows["acked" if producer else "received"][min(told, seconds - 1)] += 1
        for name, row in rows.items():
            counts[name] += row
        for number in range(seconds + 1):
            last = number == seconds
            messages.append(
                TaskMessage(
                    trial=note.trial,
                    task=task,
                    number=number,
                    second=min(number, seconds - 1),
                    first=number,
                    last=last,
                    counts={} if last else {name: [row[number]] for name, row in rows.items()},
                    cpu_ratio=[] if last else [round(random.random(), 4)],
                    histograms={key: Histogram.of_values(found) for key, found in said[number].items()},
                )
            )
    messages.sort(key=lambda message: message.number)
    samples: list[Note] = [
        HostNote(note.trial, f"host-{host}", second, {"cpu_ratio": round(random.random(), 6)})
        for second in range(seconds)
        for host in range(hosts)
    ]
    end = EndNote(note.trial, note.warmup_max_s, "done")
    return ImaginedLoad([note, *samples, end], messages, values, counts)


def exact_percentile(values: list[int], percentile: float) -> int:
    """By the definition: the value at the rank, then the upper edge of its bucket. Nothing of it is Highwater's."""
    from hdrh.histogram import HdrHistogram

    ranked = sorted(values)
    rank = max(1, int(percentile * len(ranked) / 100 + 0.5))
    return int(HdrHistogram(1, 3_600_000_000_000, 3).get_highest_equivalent_value(int(np.int64(ranked[rank - 1]))))
