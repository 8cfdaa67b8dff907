from __future__ import annotations

import os
import time

from bench.host.sampler import HostSampler, host_use
from bench.results import HostSample


def sample(second: int, **values: float | int | None) -> HostSample:
    fields: dict[str, float | int | None] = dict.fromkeys(HostSample.model_fields)
    return HostSample.model_validate(fields | {"second": second, "cpu_ratio": 0.5} | values)


def test_means_are_of_the_measured_phase_only_and_of_what_is_known() -> None:
    samples = [
        sample(0, cpu_ratio=1.0, dirty_bytes=900),
        sample(1, system_cpu_ratio=0.25, disk_write_bytes=100, dirty_bytes=10),
        sample(2, system_cpu_ratio=None, disk_write_bytes=300, dirty_bytes=20),
        sample(3, cpu_ratio=1.0, dirty_bytes=900),
    ]
    use = host_use(samples, 1, 3)
    assert (use.cpu_ratio, use.system_cpu_ratio, use.disk_write_bytes_per_s) == (0.5, 0.25, 200)
    assert (use.dirty_bytes_max, use.system_rss_bytes, use.disk_read_bytes_per_s) == (20, None, None)


def test_samples_of_this_process_are_filed_by_second() -> None:
    started_s = time.monotonic()
    with HostSampler([os.getpid()], None) as sampler:
        deadline_s = started_s + 30
        while len(sampler.samples(started_s)) < 1 and time.monotonic() < deadline_s:
            time.sleep(0.05)
    (first, *_) = sampler.samples(started_s)
    assert first.second == 0
    assert 0 <= first.cpu_ratio <= 1
    assert first.system_rss_bytes is not None
    assert first.system_rss_bytes > 1 << 20
    assert first.disk_write_bytes is None
    # What lies before T0 is not part of the trial.
    assert sampler.samples(time.monotonic() + 60) == []


def test_a_process_that_is_gone_is_unknown() -> None:
    with HostSampler([2**22 + 1], "no-such-disk") as sampler:
        pass
    assert sampler.samples(0.0) == []
