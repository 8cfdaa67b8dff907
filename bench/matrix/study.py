"""The study of a matrix: which settings, under which loads, on which disks; the file in YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from highwater.bench.matrix.design import MOST_SETTINGS
from highwater.bench.prove.judging import DECIDING
from highwater.bench.prove.loads import LOADS
from highwater.bench.prove.subjects import knob_ids
from highwater.bench.storage.control_groups import DiskLimits
from highwater.bench.workload.complaints import complaint
from highwater.bench.workload.values import KeyFaultError, Part
from highwater.bench.workload.yaml_document import read_document
from highwater.common.errors import UsageError
from highwater.common.nearest import did_you_mean
from highwater.common.quantities import BYTE_RATE, format_size
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL

SHIPPED: Final = Path(__file__).parent / "twenty-settings.yaml"
HOST: Final = "host"
"""The name of the disk of `--data-dir`, which is not emulated."""

# What is made for it has a longer one, for which there is little room.
_DISK_NAME: Final = re.compile(r"[a-z0-9]{1,6}")

BytesPerS = Annotated[
    int, BeforeValidator(BYTE_RATE.integer), PlainSerializer(lambda size_bytes: f"{format_size(size_bytes)}/s")
]


class Volume(Part):
    """The limits of an emulated disk."""

    bandwidth_bytes_per_s: BytesPerS = Field(alias="bandwidth", ge=1)
    iops: int = Field(ge=1)

    @property
    def limits(self) -> DiskLimits:
        return DiskLimits(self.bandwidth_bytes_per_s, self.iops)


class Study(Part):
    schema_: Literal["bench.matrix/1"] = Field(alias="schema")
    settings: list[str] = Field(
        min_length=1, max_length=MOST_SETTINGS, description="as `highwater tune prove` takes them, each knob once"
    )
    loads: dict[str, list[str]] = Field(min_length=1, description="shipped load to the figures that decide under it")
    disks: dict[str, Volume | None] = Field(min_length=1, description="name to limits; `host` is the disk itself")
    confirming_pairs: int = Field(default=20, ge=LEAST_FOR_INTERVAL, le=30)

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        names = list(map(name_of, self.settings))
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise KeyFaultError("settings", text=f"{twice} is there twice")
        for load, figures in self.loads.items():
            if load not in LOADS or not figures or not DECIDING.keys() >= set(figures):
                known = f"loads are {', '.join(LOADS)}; figures that decide are {', '.join(DECIDING)}"
                raise KeyFaultError("loads", load, text=f"{figures} are no figures of a load ({known})")
        for name, volume in self.disks.items():
            if not _DISK_NAME.fullmatch(name):
                raise KeyFaultError("disks", name, text="a disk has a name of up to six of a-z and 0-9")
            if (volume is None) != (name == HOST):
                raise KeyFaultError("disks", name, text="every disk but `host` has bandwidth and iops, and `host` none")
        return self

    def narrowed(self, settings: Sequence[str], loads: Sequence[str], disks: Sequence[str]) -> Study:
        """The part with these settings (`noatime` is enough for `mount.noatime`), loads and disks; none: all of them.

        Raises UsageError for what the study does not have.
        """
        kept_loads = _picked("--load", loads, self.loads, lambda load: [load_name(load), load])
        kept_disks = _picked("--disk", disks, self.disks, lambda disk: [disk])
        kept = {
            "settings": _picked("--only", settings, self.settings, _words),
            "loads": {load: self.loads[load] for load in kept_loads},
            "disks": {disk: self.disks[disk] for disk in kept_disks},
        }
        return self.model_copy(update=kept)

    def as_document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


def read_study(path: Path) -> Study:
    """Raises UsageError with file and line."""
    document = read_document(path)
    try:
        return Study.model_validate(document.data)
    except ValidationError as error:
        location, text = complaint(error, Study)
        raise UsageError(f"{document.origin(location)}: {text}") from None


def name_of(setting: str) -> str:
    """`vm.swappiness` of `vm.swappiness=60:1`; knobs that change together keep their `+`."""
    return "+".join(knob_ids(setting))


def load_name(load: str) -> str:
    """`writes` of `prove-writes`"""
    return load.removeprefix("prove-")


def _words(setting: str) -> list[str]:
    knobs = knob_ids(setting)
    return [name_of(setting), *knobs, *(knob.rpartition(".")[2] for knob in knobs)]


def _picked(option: str, words: Sequence[str], items: Iterable[str], words_of: Callable[[str], list[str]]) -> list[str]:
    """The items that the words name, in their own order; all without words."""
    by_word = {word: item for item in items for word in words_of(item)}
    for word in words:
        if word not in by_word:
            names = ", ".join(words_of(item)[0] for item in items)
            raise UsageError(f"{option}: the study has no {word!r}{did_you_mean(word, by_word)} (it has {names})")
    named = {by_word[word] for word in words}
    return [item for item in items if not words or item in named]
