"""A trace directory: `highwater.trace/1`, its files, their digests, written and read as a whole.

manifest.json        what was captured and when, notes, SHA-256 of the other files
arrivals.npy         records in each bin_ms of the manifest, from the first record to the last (NumPy's format, int32)
distributions.json   sizes, popularity of keys, batches, codecs, partitions
workload.yaml        a workload that replays the trace; to be edited, so that it has no digest
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from highwater.common.errors import UsageError

FAMILY: Final = "highwater.trace"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
ARRIVALS: Final = "arrivals.npy"
DISTRIBUTIONS: Final = "distributions.json"
WORKLOAD: Final = "workload.yaml"
Pairs = list[tuple[int, int]]
"""(value, how many) in order of the value."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Manifest(_Model):
    schema_: Literal["highwater.trace/1"] = Field(alias="schema")
    level: Literal[0, 1]
    source: Literal["topic", "files"]
    starts_at: str = Field(description="time of the first record, UTC")
    lasts_ms: int = Field(ge=1)
    bin_ms: int = Field(ge=1)
    records: int = Field(ge=1)
    partitions: int = Field(ge=1)
    notes: list[str] = []
    files: dict[str, str] = Field(description="name -> SHA-256")


class Codec(_Model):
    batches: int
    records: int
    stored_bytes: int
    unpacked_bytes: int


class Compressed(_Model):
    """Sizes of sampled batches, without their keys and values."""

    before_bytes: int
    after_bytes: int

    @property
    def ratio(self) -> float:
        return self.after_bytes / self.before_bytes


class Partition(_Model):
    partition: int
    records: int
    stored_bytes: int
    null_keys: int


class Batches(_Model):
    size_bytes: Pairs
    records: Pairs
    span_ms: Pairs
    stored_bytes: int
    count: int


class ProducerCounts(_Model):
    """Producer ids are not kept: how many there were, and the records of each, the busiest first (100 at most)."""

    with_id: int
    records_by_rank: list[int]
    records_without_id: int


class Keys(_Model):
    """rows: (records of each key, bytes of the key, partition, number of such keys), the most frequent keys first."""

    distinct: int
    moved_records: int = Field(description="records in another partition than the first record of their key")
    count_error_max: int = Field(description="by how much the count of a key can be too low")
    rows: list[tuple[int, int, int, int]]


class RecordStatistics(_Model):
    """Level 1. headers: (number, bytes of names, bytes of values, records) of each shape."""

    value_bytes: Pairs
    key_bytes: Pairs
    headers: list[tuple[int, int, int, int]]
    null_keys: int
    null_values: int
    keys: Keys
    compressibility: dict[str, Compressed]


class Group(_Model):
    """A group during the capture: in each second, records consumed, and records left to consume."""

    consumed: list[int]
    lag: list[int]


class Distributions(_Model):
    batches: Batches
    codecs: dict[str, Codec]
    partitions: list[Partition]
    producers: ProducerCounts
    records: RecordStatistics | None = None
    group: Group | None = None
    control_batches: int = 0
    transactional_records: int = 0
    vanished_offsets: int = 0
    lost_offsets: int = 0
    records_without_time: int = 0


@dataclass(frozen=True, eq=False)
class Trace:
    """`arrivals`: records in each bin of manifest.bin_ms. digest: SHA-256 of the manifest, which names the others'."""

    manifest: Manifest
    distributions: Distributions
    arrivals: NDArray[np.int32]
    digest: str


def check_new(directory: Path) -> None:
    """Raises UsageError for an output directory that exists, or that cannot be made."""
    if directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} exists already; name a new directory with --out")
    if not directory.absolute().parent.is_dir():
        raise UsageError(f"{directory.absolute().parent} is not a directory; make it first, or name another --out")


def write_trace(
    directory: Path,
    manifest: Manifest,
    distributions: Distributions,
    arrivals: NDArray[np.int32],
    others: Callable[[Trace], Mapping[str, str]] = lambda trace: {},
) -> Trace:
    """Write a new directory as a whole; after an error there is none. Raises UsageError, OSError.

    `manifest.files` is filled in here. others: texts of files that are made from the trace and have no digest.
    """
    check_new(directory)
    temporary = directory.with_name(f"{directory.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        buffer = io.BytesIO()
        np.save(buffer, arrivals, allow_pickle=False)
        contents = {
            ARRIVALS: buffer.getvalue(),
            DISTRIBUTIONS: distributions.model_dump_json(by_alias=True).encode() + b"\n",
        }
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        whole = manifest.model_copy(update={"files": digests})
        contents[MANIFEST] = whole.model_dump_json(by_alias=True, indent=2).encode() + b"\n"
        trace = Trace(whole, distributions, arrivals, hashlib.sha256(contents[MANIFEST]).hexdigest())
        contents |= {name: text.encode() for name, text in others(trace).items()}
        for name, content in contents.items():
            (temporary / name).write_bytes(content)
        temporary.rename(directory)
        return trace
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def read_trace(directory: Path) -> Trace:
    """Raises UsageError for what is no trace, is newer, or is damaged."""
    manifest_bytes = _read(directory, MANIFEST)
    manifest = _manifest_of(directory, manifest_bytes)
    contents = {}
    for name in (ARRIVALS, DISTRIBUTIONS):
        contents[name] = _read(directory, name)
        if hashlib.sha256(contents[name]).hexdigest() != manifest.files.get(name):
            raise UsageError(
                f"{directory / name} is not as it was written ({MANIFEST} has another digest); copy the trace anew"
            )
    try:
        distributions = Distributions.model_validate_json(contents[DISTRIBUTIONS])
        arrivals = np.load(io.BytesIO(contents[ARRIVALS]), allow_pickle=False)
    except (ValidationError, ValueError) as error:
        raise UsageError(f"{directory} is damaged: {_first_line(error)}") from None
    return Trace(manifest, distributions, arrivals, hashlib.sha256(manifest_bytes).hexdigest())


def _read(directory: Path, name: str) -> bytes:
    try:
        return (directory / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{directory} is not a trace: it has no {name}; highwater capture makes one") from None


def _manifest_of(directory: Path, content: bytes) -> Manifest:
    try:
        schema = json.loads(content)["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{directory / MANIFEST} is not a manifest of a trace") from None
    family, _, version = str(schema).partition("/")
    if family == FAMILY and version.isdecimal() and int(version) > VERSION:
        raise UsageError(
            f"{directory} has the schema {schema}, and this Highwater reads up to {FAMILY}/{VERSION}; update it"
        )
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise UsageError(f"{directory / MANIFEST} is not a manifest of a trace: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]
