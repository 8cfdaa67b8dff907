"""When the telemetry of a trial ends: after its samplers, as they may take one more second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from highwater.bench.host.sampler import HostSampler
from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.publishing import THIS_HOST, Sampled, TrialTelemetry
from highwater.bench.trials import trial
from highwater.spark_loadgen.model import LoadResult
from tests.bench.runs.test_runner import Bench


def test_samplers_have_ended_before_the_telemetry_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    class Sampler(HostSampler):
        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)
            steps.append("sampler ended")

    class Telemetry(TrialTelemetry):
        def ended(self, result: LoadResult, hosts: Mapping[str, Sampled]) -> None:
            assert list(hosts) == [THIS_HOST]
            steps.append("telemetry ended")

        def __exit__(self, *error: object) -> None:
            steps.append("telemetry flushed")

    monkeypatch.setattr(trial, "HostSampler", Sampler)
    monkeypatch.setattr(trial, "TrialTelemetry", Telemetry)
    bench = Bench(tmp_path)
    bench.telemetry = ControlTopic("127.0.0.1:9")
    bench.run()
    assert bench.result().manifest.trials
    assert steps == ["sampler ended", "telemetry ended", "telemetry flushed"] * len(bench.plan.trials)
