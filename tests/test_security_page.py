"""The page on security: each line names the tests that hold it, and its numbers are those of the code."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Final

import pytest

from highwater.broker.protocol.apis import APIS, CLUSTER_APIS
from highwater.broker.security.sasl import MOST_REQUESTS_BEFORE_LOGIN
from highwater.broker.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS_OF_A_SERVER
from highwater.broker.server.acceptor import HANDSHAKE_TIMEOUT_S, Limits
from highwater.broker.server.connection import LOGIN_TIMEOUT_MS
from highwater.broker.server.listeners import endpoints_of
from highwater.broker.server.sasl import sasl_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.common.listener_rules import MOST_LINES, WINDOW_MS

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = (ROOT / "docs/security.md").read_text()
TABLES: Final = ("By default", "What protects what", "What is not defended")
REFERENCE: Final = re.compile(r"`(tests/[\w/]+\.py)::((?:Test\w+::)?test_\w+)`")


def rows(heading: str) -> list[list[str]]:
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@functools.cache
def functions_in(file: str) -> frozenset[str]:
    """The test functions of a file, and its methods as CLASS::METHOD."""
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return frozenset(found)


@pytest.mark.parametrize("heading", TABLES)
def test_each_line_names_tests_that_are_there(heading: str) -> None:
    lines = rows(heading)
    assert len(lines) >= 5
    for line in lines:
        assert len(line) == 3, line
        assert line[1], line
        named = REFERENCE.findall(line[2])
        assert named, line
        assert REFERENCE.sub("", line[2]).replace("<br>", "") == "", line
        for file, test in named:
            assert test in functions_in(file), f"{file}::{test}, of the line on {line[0]}"


def config(*settings: str) -> BrokerConfig:
    return BrokerConfig([Setting("test", *text.split("=", 1)) for text in settings])


def test_a_broker_without_settings_listens_for_this_host_alone() -> None:
    endpoints, advertised = endpoints_of(BrokerConfig())
    assert [(endpoint.host, endpoint.protocol) for endpoint in endpoints] == [("127.0.0.1", "PLAINTEXT")]
    assert advertised == {}


def test_the_numbers_of_the_page_are_those_of_the_broker() -> None:
    (hostile,) = [line[1] for line in rows("What protects what") if line[0] == "hostile bytes before the login"]
    assert f"{MOST_REQUESTS_BEFORE_LOGIN} requests, half a minute; {HANDSHAKE_TIMEOUT_S:g} s for a handshake" in hostile
    assert LOGIN_TIMEOUT_MS == 30_000
    assert f"{LEAST_ITERATIONS:,} to {MOST_ITERATIONS_OF_A_SERVER:,} iterations" in PAGE
    largest = BrokerConfig().integer("sasl.server.max.receive.size")
    assert f"`sasl.server.max.receive.size` ({largest >> 10} KiB), for half a minute" in PAGE
    assert f"in a minute, and {MOST_LINES} in a minute at most" in PAGE
    assert WINDOW_MS == 60_000


def test_limits_of_connections_are_read_from_their_settings() -> None:
    limits = Limits.of(config("max.connections=7", "max.connections.per.ip=3", "max.connection.creation.rate=5"))
    assert (limits.most, limits.most_per_host, limits.most_per_second) == (7, 3, 5)


def test_there_is_no_kerberos_and_there_are_no_delegation_tokens() -> None:
    with pytest.raises(ConfigError, match="GSSAPI"):
        sasl_of(config("sasl.enabled.mechanisms=GSSAPI"), "CLIENTS", dict)
    assert not [api.name for api in (*APIS.values(), *CLUSTER_APIS.values()) if "delegation" in api.name]


def test_ci_does_not_ask_for_known_holes() -> None:
    assert "audit" not in (ROOT / ".ci/run").read_text()
