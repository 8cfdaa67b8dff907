from __future__ import annotations

import os
import time
from functools import partial

from highwater.bench.host.processes import ProcessGroups
from highwater.bench.host.sampler import HostSampler
from highwater.bench.host.use import host_use
from highwater.results.host import HostSample
from tests.waiting import wait_until


def sample(second: int, **values: float | int | None) -> HostSample:
    fields: dict[str, float | int | None] = dict.fromkeys(HostSample.model_fields)
    return HostSample.model_validate(fields | {"second": second, "cpu_ratio": 0.5} | values)


def test_means_are_of_the_measured_phase_only_and_of_what_is_known() -> None:
    samples = [
        sample(0, cpu_ratio=1.0, dirty_bytes=900),
        sample(1, system_cpu_ratio=0.25, disk_write_bytes=100, dirty_bytes=10, memory_available_bytes=7),
        sample(2, system_cpu_ratio=None, disk_write_bytes=300, dirty_bytes=20, memory_available_bytes=5),
        sample(3, cpu_ratio=1.0, dirty_bytes=900, memory_available_bytes=1),
    ]
    use = host_use(samples, 1, 3)
    assert (use.cpu_ratio, use.system_cpu_ratio, use.disk_write_bytes_per_s) == (0.5, 0.25, 200)
    assert (use.dirty_bytes_max, use.system_rss_bytes, use.disk_read_bytes_per_s) == (20, None, None)
    assert use.memory_available_bytes_min == 5


def test_a_disks_latency_is_of_its_operations_not_of_seconds() -> None:
    samples = [
        sample(0, disk_read_latency_ns=1000.0, disk_read_operations=99.0),
        sample(1, disk_read_latency_ns=5000.0, disk_read_operations=1.0),
        sample(2, disk_read_operations=0.0),
    ]
    assert host_use(samples, 0, 3).disk_read_latency_ns == 1040.0


def test_samples_of_this_process_are_filed_by_second() -> None:
    started_s = time.monotonic()
    with HostSampler(ProcessGroups(system=(os.getpid(),)), None) as sampler:
        wait_until(partial(sampler.samples, started_s), "a sample")
    (first, *_) = sampler.samples(started_s)
    assert first.second == 0
    assert 0 <= first.cpu_ratio <= 1
    assert first.system_rss_bytes is not None
    assert first.system_rss_bytes > 1 << 20
    assert first.system_cpu_ratio is not None
    assert first.generator_cpu_ratio is None
    assert first.loopback_bytes is not None
    assert first.sampler_cpu_ratio is not None
    assert 0 < first.sampler_cpu_ratio < 1
    assert first.memory_available_bytes is not None
    assert first.disk_write_bytes is None
    used_s = sampler.system_cpu_s()
    assert used_s is not None
    assert used_s >= first.system_cpu_ratio
    # What lies before T0 is not part of the trial.
    assert sampler.samples(time.monotonic() + 60) == []


def test_what_the_system_used_before_the_load_is_none_of_the_loads() -> None:
    def work(cpu_s: float) -> None:
        until_s = time.process_time() + cpu_s
        while time.process_time() < until_s:
            pass

    with HostSampler(ProcessGroups(system=(os.getpid(),)), None) as sampler:
        work(0.5)
        sampler.load_begins()
        work(0.1)
    used_s = sampler.system_cpu_s()
    assert used_s is not None
    assert 0.1 <= used_s < 0.5


def test_a_process_that_is_gone_and_a_disk_that_is_not_there_are_unknown() -> None:
    started_s = time.monotonic()
    with HostSampler(ProcessGroups(system=(2**22 + 1,)), "no-such-disk") as sampler:
        wait_until(partial(sampler.samples, started_s), "a sample")
    (first, *_) = sampler.samples(started_s)
    assert (first.system_cpu_ratio, first.system_rss_bytes, first.system_read_bytes) == (None, None, None)
    assert (first.disk_read_bytes, first.disk_util_ratio, first.disk_read_latency_ns) == (None, None, None)
