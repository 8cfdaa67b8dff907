"""Reads a script of faults from YAML: a seed, and rules of when to do what, how many times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from highwater.broker.faults.kinds import KINDS, FaultKind, read_api
from highwater.broker.faults.request import API_NAMES, CONNECT, FaultRequest
from highwater.common.errors import UsageError
from highwater.common.extras import how_to_install
from highwater.common.nearest import did_you_mean
from highwater.common.yaml_nodes import Document, parse
from highwater.common.yaml_part import Part

_EXAMPLE: Final = "rules: [{when: {api: Produce}, then: {kind: drop_after}, times: 1}]"
_PATTERNS: Final = ("client_id", "principal", "listener")
_RANGE: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(frozen=True)
class FaultRule:
    number: int
    """Counted from 1."""
    kind: FaultKind
    values: Mapping[str, Any]
    """The parameters of the kind."""
    apis: tuple[str, ...]
    versions: range | None = None
    patterns: tuple[tuple[str, str], ...] = ()
    """Attributes of a request and the patterns that they must match."""
    topic: str = ""
    connection: int = 0
    nth: int = 0
    after_ms: int = 0
    probability: float = 1.0
    times: int = 0
    """0: no limit."""

    def fits(self, request: FaultRequest) -> bool:
        """Whether all conditions hold that depend on nothing but the request."""
        return (
            request.name in self.apis
            and (self.versions is None or request.version in self.versions)
            and self.connection in (0, request.connection)
            and all(fnmatchcase(getattr(request, name), pattern) for name, pattern in self.patterns)
            and (not self.topic or self._names_topic(request))
            and self.kind.fits(self.values, request)
        )

    def _names_topic(self, request: FaultRequest) -> bool:
        if request.name == "Metadata" and not request.topics:
            return True  # It asks for all topics.
        return any(fnmatchcase(topic, self.topic) for topic in request.topics)


@dataclass(frozen=True)
class Script:
    seed: int = 0
    rules: tuple[FaultRule, ...] = ()


def read_script(text: str, name: str = "script") -> Script:
    """Read a script; `name` begins the errors. Raises UsageError, one line with line and key."""
    try:
        import yaml  # here, as no other part of the broker needs it
    except ModuleNotFoundError:
        raise UsageError(f"scripts of faults need PyYAML: {how_to_install('faults')}") from None
    return _script(parse(yaml, text, name, _EXAMPLE))


def _script(document: Document) -> Script:
    part = Part(document, {}, Path())
    part.check_keys(("seed", "rules"))
    rules = [_rule(number, each) for number, each in enumerate(part.items("rules"), start=1)]
    return Script(part.integer("seed", 0, 0), tuple(rules))


def _rule(number: int, part: Part) -> FaultRule:
    part.check_keys(("when", "then", "times"))
    when, then = part.part("when"), part.part("then")
    when.check_keys(("api", "version", "topic", "connection", "nth", "after_ms", "probability", *_PATTERNS))
    name = then.text("kind")
    if name not in KINDS:
        then.fail("kind", f"there is no kind {name}{did_you_mean(name, KINDS)}")
    kind = KINDS[name]
    apis = when.several("api")
    for api in apis:
        read_api(when, "api", api, (CONNECT, *API_NAMES))
        if api not in kind.apis:
            then.fail("kind", f"{name} does not apply to {api}; it applies to {', '.join(kind.apis)}")
    topic = when.text("topic", "")
    return FaultRule(
        number,
        kind,
        {**kind.read(then), "topic": topic or "*"},
        apis or kind.apis,
        when.read("version", _versions),
        tuple((name, when.text(name)) for name in _PATTERNS if name in when),
        topic,
        when.integer("connection", 1) if "connection" in when else 0,
        when.integer("nth", 1) if "nth" in when else 0,
        when.integer("after_ms", 0, 0),
        1.0 if (probability := when.read("probability", _probability)) is None else probability,
        part.integer("times", 1) if "times" in part else 0,
    )


def _versions(text: str) -> range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a version, such as 9, or a range, such as 3-9")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def _probability(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{text} is not a probability from 0 to 1")
    return value
