"""The policy file of the gate (`bench.gate/1`): gated metrics, their floors, pairs, noise.

```yaml
schema: bench.gate/1
pairs: {min: 5, max: 15, stop_when: decided}
gate: {produce.achieved_per_s: {floor: 5%}, e2e.p99: {better: lower, floor: 10%}}
track: [produce.p999, host.cpu_ratio]
noise: {from: a_a, quantile: 0.95}
confirm: {reruns: 1, fresh_processes: true}
on_environment_mismatch: fail
```
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from highwater.bench.user_paths import expanded
from highwater.bench.workload.complaints import complaint
from highwater.bench.workload.values import KeyFaultError, Part, PercentRatio
from highwater.bench.workload.yaml_document import parse_document, read_document
from highwater.common.errors import UsageError
from highwater.results.analysis.statistics import CONFIDENCE, LEAST_FOR_INTERVAL
from highwater.results.analysis_file import AaPair, Analysis, Noise
from highwater.results.calibration import CALIBRATION_FILE, Calibration
from highwater.results.files import ResultDirectoryError, parse
from highwater.results.metrics import METRICS, metric
from highwater.results.reader import RunResult

POLICY_SCHEMA: Final = "bench.gate/1"
OWN_A_A: Final = "a_a"
NO_NOISE: Final = "none"


class Pairs(Part):
    min: int = Field(default=LEAST_FOR_INTERVAL, ge=LEAST_FOR_INTERVAL, le=1000, description="before any decision")
    max: int = Field(default=15, ge=LEAST_FOR_INTERVAL, le=1000)
    stop_when: Literal["decided", "never"] = "decided"

    @model_validator(mode="after")
    def _ordered(self) -> Pairs:
        if self.max < self.min:
            raise KeyFaultError("max", text=f"{self.max} is less than min, {self.min}")
        return self


class GatedMetric(Part):
    floor_ratio: PercentRatio = Field(alias="floor", gt=0, lt=1, description="changes smaller than this do not matter")
    better: Literal["higher", "lower"] | None = Field(
        default=None, description="needed only for a metric of which `bench metrics` does not know it"
    )


class NoiseSource(Part):
    source: str = Field(
        default=OWN_A_A,
        alias="from",
        description="a_a: A/A pairs within the gate; a result directory or calibration that has some (relative to this "
        "file); none: only the floor counts",
    )
    quantile: Annotated[float, Field(ge=0.5, lt=1)] = CONFIDENCE


class Confirm(Part):
    reruns: int = Field(default=1, ge=0, le=5, description="how often a regression must show again before it fails")
    fresh_processes: Literal[True] = Field(default=True, description="each rerun has brokers and load tasks of its own")


class Policy(Part):
    schema_: Literal["bench.gate/1"] = Field(alias="schema")
    pairs: Pairs = Pairs()
    gate: dict[str, GatedMetric] = Field(min_length=1, description="what decides; gate few")
    track: list[str] = Field(default=[], description="what is shown beside it; track all you like")
    noise: NoiseSource = NoiseSource()
    confirm: Confirm = Confirm()
    on_environment_mismatch: Literal["fail", "warn"] = "fail"

    @field_validator("gate")
    @classmethod
    def _known_gated(cls, gate: dict[str, GatedMetric]) -> dict[str, GatedMetric]:
        for name, wanted in gate.items():
            known = METRICS[_known(name, name)]
            if known.better == "none" and wanted.better is None:
                raise KeyFaultError(name, text="needs better: higher or better: lower")
        return {_known(name, name): wanted for name, wanted in gate.items()}

    @field_validator("track")
    @classmethod
    def _known_tracked(cls, track: list[str]) -> list[str]:
        return [_known(name) for name in track]

    def as_document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _known(name: str, *key: str) -> str:
    try:
        return metric(name).name
    except UsageError as error:
        raise KeyFaultError(*key, text=str(error)) from None


def load_policy(path: Path) -> Policy:
    """Read a policy file. Raises UsageError with file and line."""
    document = read_document(path)
    try:
        return Policy.model_validate(document.data)
    except ValidationError as error:
        location, text = complaint(error, Policy)
        raise UsageError(f"{document.origin(location)}: {text}") from None


def default_policy() -> Policy:
    """The policy without a file: throughput within 5 %, end-to-end p99 within 10 %."""
    text = (Path(__file__).parent.parent / "policies" / "default.yaml").read_text("utf-8")
    return Policy.model_validate(parse_document(text, "default policy").data)


def noise_from(policy: Policy, beside: Path) -> dict[str, list[AaPair]]:
    """A/A pairs by metric from the source that the policy names; none when the gate runs its own.

    `beside` is the folder of the policy file. Raises UsageError when the source has no A/A pairs.
    """
    source = policy.noise.source
    if source in (OWN_A_A, NO_NOISE):
        return {}
    path = (beside / expanded(source)).resolve()
    try:
        noise = _recorded_noise(path)
    except (OSError, ResultDirectoryError) as error:
        raise UsageError(f"noise.from: {error}") from None
    if not noise:
        raise UsageError(f"noise.from: {path} has no A/A pairs; run it with trials.a_a: true, or write from: a_a")
    return pairs_of(noise)


def pairs_of(noise: Iterable[Noise]) -> dict[str, list[AaPair]]:
    """A/A pairs by metric."""
    return {item.metric: item.pairs for item in noise}


def _recorded_noise(path: Path) -> list[Noise]:
    """Read the noise of an analysis.json, a calibration.json, or the directory of either."""
    if path.is_dir() and not (path / "manifest.json").is_file() and (path / CALIBRATION_FILE).is_file():
        path /= CALIBRATION_FILE
    if not path.is_file():
        analysis = RunResult(path).analysis()
        return analysis.noise if analysis is not None else []
    model: type[Analysis] | type[Calibration] = Calibration if path.name == CALIBRATION_FILE else Analysis
    return parse(model, path.read_text("utf-8"), path).noise


def metrics_of(policy: Policy) -> list[str]:
    """Every metric the policy names, gated ones first."""
    return list(dict.fromkeys([*policy.gate, *policy.track]))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a policy file, for editors."""
    schema = Policy.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": POLICY_SCHEMA} | {
        key: value for key, value in schema.items() if key != "title"
    }
