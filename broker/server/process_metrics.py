"""Metrics of the broker process: CPU, memory, file descriptors, garbage collection, compiled modules."""

from __future__ import annotations

import gc
import resource

import psutil

from highwater.broker.metrics.exposition import NO_LABELS, family
from highwater.common.compiled import compiled_modules


class ProcessMetrics:
    def __init__(self) -> None:
        self._process = psutil.Process()
        self._compiled = len(compiled_modules())

    def render(self) -> str:
        process = self._process
        with process.oneshot():
            cpu = process.cpu_times()
            memory = process.memory_info()
            values = (
                (
                    "process_cpu_seconds_total",
                    "counter",
                    "CPU time of the broker, user and system, in seconds.",
                    cpu.user + cpu.system,
                ),
                ("process_resident_memory_bytes", "gauge", "Resident memory in bytes.", memory.rss),
                ("process_virtual_memory_bytes", "gauge", "Virtual memory in bytes.", memory.vms),
                ("process_open_fds", "gauge", "Open file descriptors.", process.num_fds()),
                (
                    "process_start_time_seconds",
                    "gauge",
                    "Start time of the broker, as Unix time in seconds.",
                    process.create_time(),
                ),
            )
        max_fds = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        generations = [({"generation": number}, stats) for number, stats in enumerate(gc.get_stats())]
        return (
            "".join(family(name, kind, help_text, [(NO_LABELS, value)]) for name, kind, help_text, value in values)
            + family("process_max_fds", "gauge", "Limit of open file descriptors.", [(NO_LABELS, max_fds)])
            + family(
                "highwater_broker_compiled_modules",
                "gauge",
                "Hot modules that run as machine code; 0 if all of them run as Python.",
                [(NO_LABELS, self._compiled)],
            )
            + family(
                "python_gc_collections_total",
                "counter",
                "Runs of the garbage collector.",
                ((labels, stats["collections"]) for labels, stats in generations),
            )
            + family(
                "python_gc_objects_collected_total",
                "counter",
                "Objects that the garbage collector freed.",
                ((labels, stats["collected"]) for labels, stats in generations),
            )
        )
