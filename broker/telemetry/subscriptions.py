"""Subscriptions to metrics of clients: their settings, and whom they match.

A subscription names prefixes of metrics, an interval, and patterns that a client has to match, in RE2's syntax. What is
wrong is what Kafka's ClientMetricsConfigs refuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.settings.property_row import INT, LIST, Property, honoured
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.regular_expressions import Pattern, PatternError

METRICS: Final = "metrics"
INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
DEFAULT_INTERVAL_MS: Final = 300_000
PROPERTIES: Final[Mapping[str, Property]] = {
    row.name: row
    for row in (
        honoured(METRICS, LIST, []),
        honoured(INTERVAL, INT, DEFAULT_INTERVAL_MS, 100, 3_600_000),
        honoured(MATCH, LIST, []),
    )
}
ALL_METRICS: Final = "*"


class Identity(NamedTuple):
    """What is known of a client; the names of the fields are those that a subscription matches."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, Pattern]

    def matches(self, client: Identity) -> bool:
        return all(pattern.matches(getattr(client, name)) for name, pattern in self.match.items())


def subscription_of(settings: Mapping[str, str]) -> Subscription | Problem:
    """Return what these settings ask for, or why they cannot be."""
    for name in settings:
        if name not in PROPERTIES:
            return Problem(ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}")
    row = PROPERTIES[INTERVAL]
    interval = settings.get(INTERVAL, str(DEFAULT_INTERVAL_MS)).strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", interval):
        return Problem(ErrorCode.invalid_config, f"Invalid value {interval} for {INTERVAL}: Not a number of type INT")
    if not (row.low or 0) <= int(interval) <= (row.high or 0):
        return Problem(
            ErrorCode.invalid_request,
            f"Invalid value {interval} for {INTERVAL}, interval must be between {row.low} and {row.high} (1 hour)",
        )
    match: dict[str, Pattern] = {}
    for item in items_of(settings.get(MATCH, "")):
        name, _, text = (part.strip() for part in item.partition("="))
        if name not in Identity._fields or not text or "=" in text:
            return Problem(ErrorCode.invalid_config, f"Illegal client matching pattern: {item}")
        try:
            match[name] = Pattern(text)
        except PatternError as error:
            return Problem(ErrorCode.invalid_config, f"Illegal client matching pattern: {item}: {error}")
    return Subscription(frozenset(items_of(settings.get(METRICS, ""))), int(interval), match)


def items_of(text: str) -> list[str]:
    """The items of a list, as Kafka's ConfigDef parses one."""
    return [item.strip() for item in text.split(",")] if text.strip() else []
