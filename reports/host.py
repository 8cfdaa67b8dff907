"""The host panel: processors, disks, network, page cache and pressure over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from highwater.drawing.quantity import BYTES_PER_MIB
from highwater.reports.blocks import Figure
from highwater.reports.cells import Run
from highwater.reports.measures import ACHIEVED
from highwater.reports.timelines import Sample, Timeline, ms, time_figure
from highwater.results.host import HostSample
from highwater.results.models import TrialSummary
from highwater.results.reader import TrialResult

# A chart has this many colours that readers can distinguish.
_MOST_HOSTS_APART: Final = 4


def host_figures(run: Run) -> list[Figure]:
    """The host during the trials, for the quantities that were sampled."""

    def timeline(
        name: str, title: str, label: str, unit: str, **read: Callable[[HostSample], float | None]
    ) -> Timeline:
        names = [key.replace("_", " ") for key in read]
        readers = list(read.values())
        return Timeline(
            name,
            title,
            label,
            unit,
            names,
            lambda t: _from_host(t, lambda s: tuple(r(s) for r in readers)),
            ACHIEVED,
            others=len(names) == 1,
            small=True,
        )

    timelines = [
        timeline(
            "host-cpu",
            "CPU by who used it",
            "cores in use",
            "cores",
            generator=lambda s: s.generator_cpu_ratio,
            rest=_rest_of_cpu,
            broker=lambda s: s.system_cpu_ratio,
        ),
        timeline(
            "host-disk",
            "Disk traffic",
            "MiB in each second",
            "MiB/s",
            read=lambda s: _mib(s.disk_read_bytes),
            written=lambda s: _mib(s.disk_write_bytes),
        ),
        timeline(
            "host-disk-busy", "Disk utilisation", "% of the second", "%", busy=lambda s: _percent(s.disk_util_ratio)
        ),
        timeline(
            "host-disk-latency",
            "Disk latency",
            "ms, mean of the operations that ended",
            "ms",
            read=lambda s: ms(s.disk_read_latency_ns),
            write=lambda s: ms(s.disk_write_latency_ns),
        ),
        timeline(
            "host-network",
            "Network traffic",
            "MiB in each second",
            "MiB/s",
            received=lambda s: _mib(s.net_received_bytes),
            sent=lambda s: _mib(s.net_sent_bytes),
            loopback=lambda s: _mib(s.loopback_bytes),
        ),
        timeline(
            "host-dirty",
            "Page cache not yet on disk",
            "MiB",
            "MiB",
            write_back=lambda s: _mib(s.writeback_bytes),
            dirty=lambda s: _mib(s.dirty_bytes),
        ),
        timeline(
            "host-pressure",
            "Pressure (PSI)",
            "% of the second in which some task waited, or all did",
            "%",
            CPU_some=lambda s: _percent(s.cpu_pressure_some_ratio),
            memory_some=lambda s: _percent(s.memory_pressure_some_ratio),
            IO_some=lambda s: _percent(s.io_pressure_some_ratio),
            IO_full=lambda s: _percent(s.io_pressure_full_ratio),
        ),
    ]
    timelines += _cluster_timelines(run)
    return [figure for t in timelines if (figure := time_figure(run, t)) is not None]


def _cluster_timelines(run: Run) -> list[Timeline]:
    """The hosts of an external cluster, one line each; the sum when there are more hosts than colours."""
    names = list(dict.fromkeys(host.name for t in run.result.trials for host in t.summary.cluster_hosts))
    if not names:
        return []
    apart = len(names) <= _MOST_HOSTS_APART

    def timeline(name: str, title: str, label: str, unit: str, read: Callable[[HostSample], float | None]) -> Timeline:
        return Timeline(
            name,
            title,
            label,
            unit,
            names if apart else ["all hosts"],
            lambda trial: _from_cluster(trial, names, read, apart),
            ACHIEVED,
            others=False,
            small=True,
        )

    return [
        timeline("cluster-cpu", "CPU of the brokers, by host", "cores in use", "cores", lambda s: s.system_cpu_ratio),
        timeline(
            "cluster-load",
            "CPU of the load generator, by host of brokers",
            "cores in use",
            "cores",
            lambda s: s.generator_cpu_ratio,
        ),
        timeline(
            "cluster-disk",
            "Written to the disks of the log, by host",
            "MiB in each second",
            "MiB/s",
            lambda s: _mib(s.disk_write_bytes),
        ),
        timeline(
            "cluster-dirty", "Page cache not yet on disk, by host", "MiB dirty", "MiB", lambda s: _mib(s.dirty_bytes)
        ),
    ]


def _from_cluster(
    trial: TrialResult, names: Sequence[str], read: Callable[[HostSample], float | None], apart: bool
) -> list[Sample]:
    start_s, end_s = _measured(trial.summary)
    by_second: dict[int, dict[str, float | None]] = {}
    for name, samples in trial.cluster_samples().items():
        for sample in samples:
            if sample.second < end_s:
                by_second.setdefault(sample.second, {})[name] = read(sample)
    found = []
    for second, values in sorted(by_second.items()):
        known = [value for value in values.values() if value is not None]
        together = (sum(known) if known else None,)
        found.append(Sample(second, start_s <= second < end_s, tuple(map(values.get, names)) if apart else together))
    return found


def _rest_of_cpu(sample: HostSample) -> float | None:
    """CPU used by neither broker nor generator; None when the host has no figures by process."""
    known = [v for v in (sample.attendants_cpu_ratio, sample.other_cpu_ratio) if v is not None]
    return sum(known) if known else None


def _from_host(trial: TrialResult, read: Callable[[HostSample], tuple[float | None, ...]]) -> list[Sample]:
    start_s, end_s = _measured(trial.summary)
    return [Sample(s.second, start_s <= s.second < end_s, read(s)) for s in trial.host_samples() if s.second < end_s]


def _measured(summary: TrialSummary) -> tuple[float, float]:
    phase = next(p for p in summary.phases if p.name == "measure")
    return phase.start_s, phase.end_s


def _mib(value_bytes: int | None) -> float | None:
    return None if value_bytes is None else value_bytes / BYTES_PER_MIB


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio
