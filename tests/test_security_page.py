"""The page on security: each row has tests that hold it, and its numbers are those of the code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from highwater.bench.host_agent.serving import DEFAULT_LISTEN
from highwater.broker.security.sasl import MOST_REQUESTS_BEFORE_LOGIN
from highwater.broker.server.acceptor import HANDSHAKE_TIMEOUT_S, Limits
from highwater.broker.server.connection import LOGIN_TIMEOUT_MS
from highwater.broker.server.listeners import endpoints_of
from highwater.broker.server.sasl import sasl_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.common import http_endpoint
from highwater.common.listener_rules import MOST_LINES, WINDOW_MS
from highwater.common.log_lines import LONGEST_LINE
from highwater.kafka.login.scram import LEAST_ITERATIONS, MOST_ITERATIONS_OF_A_SERVER
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS
from highwater.monitor import web_server
from highwater.monitor.config import WebConfig
from highwater.pipeline.sink import grants
from highwater.spark_loadgen import channel
from tests.import_graph import place_of, rooms

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = (ROOT / "docs/security.md").read_text()
INDEX: Final = yaml.safe_load((ROOT / "tests/security_page.yaml").read_text())


def rows(*headings: str) -> list[list[str]]:
    """The cells of all rows of the tables below `headings`, without the heads of the tables."""
    parts = (PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] for heading in headings)
    tables = [table for part in parts for table in re.findall(r"^\|---.*\n((?:\|.*\n)+)", part, re.MULTILINE)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for table in tables for row in table.splitlines()]


LISTENERS: Final = rows("Who listens")


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


def test_each_row_has_its_tests_and_they_are_there() -> None:
    assert list(INDEX["rows"]) == [row[0] for row in rows("By default", "What is not defended", "What is defended")]
    for row, tests in INDEX["rows"].items():
        assert tests, row
        for each in tests:
            file, _, test = each.partition("::")
            assert test in functions_in(file), f"{each}, of the row on {row}"


LISTENING: Final = ("listen", "create_server", "start_server", "create_unix_server", "start_unix_server")


def calls_in(file: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))


def listens(file: Path) -> bool:
    """By the calls of sockets, of event loops, and of our one function that makes a socket of an option's address."""
    called = [call.func for call in calls_in(file)]
    ours = any(isinstance(each, ast.Name) and each.id == "listening_at" for each in called)
    return ours or any(isinstance(each, ast.Attribute) and each.attr in LISTENING for each in called)


def test_each_listener_has_its_line() -> None:
    places = (*(place_of(room) for room in rooms()), ROOT / "playbooks")
    found = {str(file.relative_to(ROOT)) for place in places for file in place.rglob("*.py") if listens(file)}
    for_others = {"monitor/config.py", "common/listen_address.py"}  # they read the addresses
    assert list(INDEX["listeners"]) == [row[0] for row in LISTENERS]
    assert found - for_others == {file for files in INDEX["listeners"].values() for file in files}


def limits_of(listener: str) -> tuple[str, str]:
    (line,) = [line for line in LISTENERS if line[0].startswith(listener)]
    return line[1], line[3]


def test_the_limits_of_listeners_are_those_of_the_code() -> None:
    (endpoint,), _ = endpoints_of(BrokerConfig())
    where, limits = limits_of("`listeners` of a broker")
    assert where == f"{endpoint.host}:{endpoint.port}"
    assert f"within {LOGIN_TIMEOUT_MS // 1000} s, TLS handshake within {HANDSHAKE_TIMEOUT_S:g} s" in limits
    _, limits = limits_of("`metrics.listener`")
    assert limits == (
        f"{http_endpoint.LIMITS.most} connections, {http_endpoint.LIMITS.most_per_address} of an address, a request of "
        f"{http_endpoint.MAX_HEAD_BYTES >> 10} KiB within {http_endpoint.LIMITS.head_ms // 1000} s, its answer within "
        f"{http_endpoint.DEADLINE_S:g} s"
    )
    assert limits_of("`tune agent`")[0] == DEFAULT_LISTEN
    where, limits = limits_of("pages of the monitor")
    assert where == str(WebConfig().listen)
    assert f"{web_server.MOST_CONNECTIONS} connections, {web_server.MOST_PER_ADDRESS} of an address" in limits
    assert f"within {web_server.HEAD_MS // 1000} s" in limits
    _, limits = limits_of("channel of a load")
    assert limits == f"the token within {channel.HELLO_MS // 1000} s, in {channel.HELLO_BYTES_MAX:,} bytes"
    _, limits = limits_of("permissions of a sink")
    assert limits == (
        f"{grants.MOST_QUESTIONS} connections, a question of {grants.QUESTION_BYTES} bytes "
        f"within {grants.TIMEOUT_S:g} s"
    )
    assert f"at most {LONGEST_LINE:,} characters" in PAGE


def config(*settings: str) -> BrokerConfig:
    return BrokerConfig([Setting("test", *text.split("=", 1)) for text in settings])


def test_a_broker_without_settings_listens_for_this_host_alone() -> None:
    endpoints, advertised = endpoints_of(BrokerConfig())
    assert [(endpoint.host, endpoint.security_protocol) for endpoint in endpoints] == [("127.0.0.1", "PLAINTEXT")]
    assert advertised == {}


def test_the_numbers_of_the_page_are_those_of_the_broker() -> None:
    login_s = LOGIN_TIMEOUT_MS // 1000
    assert f"{MOST_REQUESTS_BEFORE_LOGIN} requests, {login_s} s; {HANDSHAKE_TIMEOUT_S:g} s for a TLS handshake" in PAGE
    assert f"{LEAST_ITERATIONS:,} to {MOST_ITERATIONS_OF_A_SERVER:,} iterations" in PAGE
    largest = BrokerConfig().integer("sasl.server.max.receive.size")
    assert f"`sasl.server.max.receive.size` ({largest >> 10} KiB) for {login_s} s" in PAGE
    assert f"in a minute, and {MOST_LINES} in a minute at most" in PAGE.replace("\n", " ")
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
