"""A load in one line: options that make a workload without a file, or override keys of a file.

A value with commas is an axis. Without a file, the options are laid over defaults that suit a first try, and the
result is a workload file as any other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from highwater.bench.workload.model import WORKLOAD_SCHEMA
from highwater.common import quantities
from highwater.common.errors import UsageError
from highwater.common.units import NANOSECONDS
from highwater.common.yaml_nodes import Document, Location, dotted

_DEFAULTS: Final[dict[str, Any]] = {
    "schema": WORKLOAD_SCHEMA,
    "name": "one-line",
    "purpose": "",
    "topics": {"partitions": 4},
    "producers": {"count": 1, "client": {"acks": "all", "linger.ms": 5}},
    "consumers": {"per_group": 1},
    "records": {"size": "1KiB"},
    "load": {},
    "phases": {"warmup": "5s", "measure": "20s", "drain": "30s"},
    # Fewer than five trials have no interval.
    "trials": {"n": 5},
}


def _milliseconds(text: str) -> int | float:
    milliseconds = quantities.DURATION.integer(text) / NANOSECONDS["ms"]
    return int(milliseconds) if milliseconds.is_integer() else milliseconds


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of the workload file, and how its value is written on the command line."""

    location: Location
    parse: Callable[[str], Any] = str


_KEYS: Final[Mapping[str, _Key]] = {
    "--size": _Key(("records", "size")),
    "--rate": _Key(("load", "rate")),
    "--for": _Key(("phases", "measure")),
    "--warmup": _Key(("phases", "warmup")),
    "--acks": _Key(("producers", "client", "acks")),
    "--compression": _Key(("producers", "client", "compression.type")),
    "--batch-size": _Key(("producers", "client", "batch.size")),
    "--linger": _Key(("producers", "client", "linger.ms"), _milliseconds),
    "--partitions": _Key(("topics", "partitions"), quantities.parse_count),
    "--producers": _Key(("producers", "count"), quantities.parse_count),
    "--consumers": _Key(("consumers", "per_group"), quantities.parse_count),
    "--system": _Key(("system", "kind")),
}
OPTIONS: Final = tuple(_KEYS)


def default_document(options: Mapping[str, str]) -> Document:
    """The workload that the options are laid over when there is no file. Raises UsageError without a rate."""
    if "--rate" not in options:
        raise UsageError(
            "name a workload FILE, or give a load in one line: --rate 3k/s [--size 500B --acks 1,all --for 20s …]"
        )
    data = copy.deepcopy(_DEFAULTS)
    axes = [str(_KEYS[option].location[-1]) for option, text in options.items() if "," in text]
    if not axes:
        del data["purpose"]
    else:
        names = " and ".join(filter(None, [", ".join(axes[:-1]), axes[-1]]))
        data["purpose"] = f"What {'does' if len(axes) == 1 else 'do'} {names} change?"
    return Document("the options", data)


def overrides_of(options: Mapping[str, str], document: Document) -> dict[Location, tuple[Any, str]]:
    """Key -> (value, the option that set it), as `specification_of_document` takes them.

    An axis of the document for the same key is replaced. Raises UsageError for a value that cannot be read, and for a
    key that variants of the document set.
    """
    overrides: dict[Location, tuple[Any, str]] = {}
    for option, text in options.items():
        key = _KEYS[option]
        _check_variants(option, key.location, document.data.get("variants"))
        values = [_parsed(option, key, value) for value in text.split(",")]
        overrides[key.location] = (values[0], option)
        axis: Location = ("matrix", dotted(key.location))
        if len(values) > 1:
            overrides[axis] = (values, option)
        elif axis[1] in (document.data.get("matrix") or {}):
            overrides[axis] = (None, option)
    return overrides


def as_text(document: Document) -> str:
    """The workload file that says what a document says."""
    return yaml.safe_dump(document.data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)


def _parsed(option: str, key: _Key, text: str) -> Any:
    if not text:
        raise UsageError(f"{option}: a value between commas is missing")
    try:
        return key.parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _check_variants(option: str, location: Location, variants: object) -> None:
    for name, overlay in variants.items() if isinstance(variants, dict) else ():
        part: Any = overlay
        for step in location:
            part = part.get(step) if isinstance(part, dict) else None
        if part is not None:
            raise UsageError(f"{option}: the variant {name} sets {dotted(location)} itself; leave {option} out")
