"""The values of a workload file: text with a unit in the file, a number in Python.

Some keys accept one of several shapes (`size: 1KiB` or `size: {uniform: {min: 100B, max: 2KiB}}`). Each shape is a
type of its own. `one_of` chooses the shape by the key that is present, so that an error is reported for the shape that
was written, and not once for every shape.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from highwater.common import quantities
from highwater.results.bounds import BOUND_FORM, BOUND_PATTERN, Bound, parse_bound

TEMPORARY_TARGET: Final = "temporary"
NO_PROFILE: Final = "none"
SMALLEST_VALUE_BYTES: Final = 24
LARGEST_VALUE_BYTES: Final = 2**30
LARGEST_KEY_COUNT: Final = 100_000_000


class KeyFaultError(ValueError):
    """A fault of one key that a check of the whole part found."""

    def __init__(self, *key: str | int, text: str) -> None:
        super().__init__(text)
        self.key = key


class Part(BaseModel):
    """A mapping of a workload file. Unknown keys and values of a wrong type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Scalar = str | int | float | bool


def _scalars_only(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping of property names to values")
    for name, item in value.items():
        if isinstance(item, list):
            raise KeyFaultError(name, text="a list; to compare several values, list them under matrix:")
        if not isinstance(item, str | int | float | bool):
            raise KeyFaultError(name, text=f"{item!r} is not a text, a number or true/false")
    return value


Properties = Annotated[dict[str, Scalar], BeforeValidator(_scalars_only)]


def _schema(pattern: str, form: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "description": form, "examples": [example]})


MOST_PROBE_FILES: Final = 4096
"""More files are more than a test of a disk needs, and take long to make."""

SizeBytes = Annotated[
    int,
    BeforeValidator(quantities.SIZE.integer),
    PlainSerializer(quantities.format_size),
    _schema(quantities.SIZE.pattern, quantities.SIZE.form, "64KiB"),
]
RatePerS = Annotated[
    int,
    BeforeValidator(quantities.RATE.integer),
    PlainSerializer(quantities.format_rate),
    _schema(quantities.RATE.pattern, quantities.RATE.form, "20k/s"),
]
DurationS = Annotated[
    int,
    BeforeValidator(quantities.parse_duration_s),
    PlainSerializer(quantities.format_duration_s),
    _schema(quantities.DURATION.pattern, quantities.DURATION.form + "; whole seconds", "15s"),
]
DurationNs = Annotated[
    int,
    BeforeValidator(quantities.DURATION.integer),
    PlainSerializer(quantities.format_duration_ns),
    _schema(quantities.DURATION.pattern, quantities.DURATION.form, "1ms"),
]
PercentRatio = Annotated[
    float,
    BeforeValidator(quantities.parse_percent),
    PlainSerializer(quantities.format_percent),
    _schema(quantities.PERCENT.pattern, quantities.PERCENT.form, "2%"),
]
Count = Annotated[
    int,
    BeforeValidator(quantities.parse_count),
    PlainSerializer(quantities.format_count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": quantities.COUNT.pattern},
            ],
            "description": quantities.COUNT.form,
            "examples": ["100k"],
        }
    ),
]
KeyCount = Annotated[Count, Field(ge=1, le=LARGEST_KEY_COUNT)]
SloBound = Annotated[
    Bound, PlainValidator(parse_bound), PlainSerializer(str), _schema(BOUND_PATTERN, BOUND_FORM, "<20ms")
]


def one_of(forms: str, *, text: str, keys: Mapping[str, str], texts: Collection[str] = ()) -> Discriminator:
    """Choose the shape of a value: `text` for anything but a mapping (with `texts`, only for these), else by its key.

    keys: key of the mapping -> tag of the shape. `forms` lists what is accepted, for the error text.
    """

    def tag(value: Any) -> str | None:
        if isinstance(value, BaseModel):
            value = value.model_dump(by_alias=True)
        if isinstance(value, dict):
            present = [keys[key] for key in value if key in keys]
            return present[0] if len(present) == 1 else None
        return text if not texts or value in texts else None

    return Discriminator(tag, custom_error_type="shape", custom_error_message=forms)


# --- records.size ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Every value has this size."""

    size_bytes: int

    @property
    def max_bytes(self) -> int:
        return self.size_bytes

    @property
    def mean_bytes(self) -> float:
        return float(self.size_bytes)


def _parse_value_size(value: object) -> int:
    size_bytes = quantities.SIZE.integer(value)
    if not SMALLEST_VALUE_BYTES <= size_bytes <= LARGEST_VALUE_BYTES:
        raise ValueError(f"{quantities.format_size(size_bytes)} is not between 24B (the stamp) and 1GiB")
    return size_bytes


_SIZE_SCHEMA: Final = _schema(quantities.SIZE.pattern, quantities.SIZE.form, "1KiB")
ValueSize = Annotated[int, BeforeValidator(_parse_value_size), PlainSerializer(quantities.format_size), _SIZE_SCHEMA]


class WeightedSizes(Part):
    """Sizes chosen at random with these weights."""

    weights: dict[ValueSize, Annotated[int, Field(ge=1)]] = Field(
        min_length=1,
        description="size -> weight: {128B: 3, 1KiB: 6} sends six large values for three small ones",
        json_schema_extra={"additionalProperties": False},
    )

    @property
    def max_bytes(self) -> int:
        return max(self.weights)

    @property
    def mean_bytes(self) -> float:
        return sum(size * weight for size, weight in self.weights.items()) / sum(self.weights.values())


class _SizeRange(Part):
    min_bytes: ValueSize = Field(alias="min")
    max_bytes: ValueSize = Field(alias="max")

    @model_validator(mode="after")
    def _ordered(self) -> _SizeRange:
        if self.min_bytes > self.max_bytes:
            raise KeyFaultError("min", text=f"{quantities.format_size(self.min_bytes)} is more than max")
        return self


class UniformSizes(Part):
    """Sizes chosen uniformly from a range, both ends included."""

    uniform: _SizeRange

    @property
    def min_bytes(self) -> int:
        return self.uniform.min_bytes

    @property
    def max_bytes(self) -> int:
        return self.uniform.max_bytes

    @property
    def mean_bytes(self) -> float:
        return (self.min_bytes + self.max_bytes) / 2


Sizes = Annotated[
    Annotated[
        FixedSize,
        PlainValidator(lambda value: value if isinstance(value, FixedSize) else FixedSize(_parse_value_size(value))),
        PlainSerializer(lambda size: quantities.format_size(size.size_bytes)),
        _SIZE_SCHEMA,
        Tag("fixed"),
    ]
    | Annotated[WeightedSizes, Tag("weighted")]
    | Annotated[UniformSizes, Tag("uniform_sizes")],
    one_of(
        f"{quantities.SIZE.form}, or {{weights: {{128B: 3, 1KiB: 6}}}}, or {{uniform: {{min: 100B, max: 2KiB}}}}",
        text="fixed",
        keys={"weights": "weighted", "uniform": "uniform_sizes"},
    ),
]


# --- records.keys and records.headers -------------------------------------------------------------------------------


class RoundRobinKeys(Part):
    """n keys, in turn."""

    round_robin: KeyCount

    @property
    def n(self) -> int:
        return self.round_robin


class _RandomKeys(Part):
    n: KeyCount


class RandomKeys(Part):
    """n keys, all equally likely."""

    random: _RandomKeys

    @property
    def n(self) -> int:
        return self.random.n


class _ZipfKeys(Part):
    n: KeyCount
    s: float = Field(
        default=1.1, gt=0, le=10, description="exponent: the key of rank r is r**-s times as frequent as the first"
    )


class ZipfKeys(Part):
    """n keys; the key of rank r is r**-s times as frequent as the first."""

    zipf: _ZipfKeys

    @property
    def n(self) -> int:
        return self.zipf.n

    @property
    def s(self) -> float:
        return self.zipf.s


NoKeys = Literal["none"]
Keys = Annotated[
    Annotated[NoKeys, Tag("no_keys")]
    | Annotated[RoundRobinKeys, Tag("round_robin_keys")]
    | Annotated[RandomKeys, Tag("random_keys")]
    | Annotated[ZipfKeys, Tag("zipf_keys")],
    one_of(
        "none, {round_robin: 100}, {random: {n: 100k}} or {zipf: {n: 100k, s: 1.1}}",
        text="no_keys",
        texts=["none"],
        keys={"round_robin": "round_robin_keys", "random": "random_keys", "zipf": "zipf_keys"},
    ),
]


class Headers(Part):
    """The same number of headers on every record."""

    count: int = Field(default=0, ge=0, le=100)
    value_bytes: int = Field(default=16, ge=0, le=10_000, alias="bytes", description="size of each header's value")

    @model_validator(mode="before")
    @classmethod
    def _none(cls, data: Any) -> Any:
        if isinstance(data, int) and not isinstance(data, bool):
            if data:
                raise ValueError(f"{data} does not give their size; write {{count: {data}, bytes: 16}}")
            return {"count": 0}
        return data


# --- phases.warmup and phases.drain ---------------------------------------------------------------------------------


class SteadyWarmup(Part):
    """Warm up until throughput and latency are steady."""

    until: Literal["steady"]
    slope_ratio: PercentRatio = Field(
        default=0.005, alias="slope", gt=0, description="largest change of the mean within the window"
    )
    window_s: DurationS = Field(default=20, alias="window", ge=5)
    max_s: DurationS = Field(
        default=120, alias="max", ge=5, description="longest warm-up; after that, the trial is not valid"
    )

    @model_validator(mode="after")
    def _fits(self) -> SteadyWarmup:
        if self.window_s > self.max_s:
            raise KeyFaultError("window", text=f"{quantities.format_duration_s(self.window_s)} is longer than max")
        return self


Warmup = Annotated[
    Annotated[DurationS, Tag("fixed_warmup")] | Annotated[SteadyWarmup, Tag("steady_warmup")],
    one_of(
        f"{quantities.DURATION.form}, or {{until: steady, slope: 0.5%, window: 20s, max: 120s}}",
        text="fixed_warmup",
        keys={"until": "steady_warmup"},
    ),
]


def _drain(value: object) -> object:
    """Accept `{max: 60s}` for `60s`."""
    if isinstance(value, dict):
        if set(value) != {"max"}:
            raise ValueError(f"{value!r} is not {quantities.DURATION.form}, or {{max: 60s}}")
        return value["max"]
    return value


DrainS = Annotated[
    DurationS,
    BeforeValidator(_drain),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": quantities.DURATION.pattern},
                {
                    "type": "object",
                    "properties": {"max": {"type": "string", "pattern": quantities.DURATION.pattern}},
                    "required": ["max"],
                    "additionalProperties": False,
                },
            ],
            "description": quantities.DURATION.form + "; whole seconds",
        }
    ),
]


# --- consumers.start ------------------------------------------------------------------------------------------------


class AfterBacklog(Part):
    """Consumers start when values of this total size are acknowledged, or when the producers have finished."""

    backlog_bytes: SizeBytes = Field(alias="after_backlog", ge=1)


ConsumerStart = Annotated[
    Annotated[Literal["with_load", "after_load"], Tag("named_start")]
    | Annotated[AfterBacklog, Tag("after_backlog_start")],
    one_of(
        "with_load, after_load or {after_backlog: 2GiB}",
        text="named_start",
        texts=["with_load", "after_load"],
        keys={"after_backlog": "after_backlog_start"},
    ),
]

# The tag of a kind of system; bench.workload.system has the kinds.
SYSTEM_TAG: Final = "system_of_kind_{}"
# Tags that pydantic adds to the location of a fault: they name a shape, and are not keys of the file.
SHAPE_TAGS: Final = frozenset(
    {
        "fixed", "weighted", "uniform_sizes", "no_keys", "round_robin_keys", "random_keys", "zipf_keys",
        "fixed_warmup", "steady_warmup", "named_start", "after_backlog_start",
        *(SYSTEM_TAG.format(kind) for kind in ("highwater", "apache-kafka", "bare-loop", "external", "command")),
    }
)  # fmt: skip
