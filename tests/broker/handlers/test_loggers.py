"""The levels of a broker's loggers, through the dispatcher (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import NodeHarness, versions

NAME = "highwater.broker.of.this.test"
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_BROKER_LOGGER = 6


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """What a test changes is as before after it."""
    names = (NAME, "highwater.broker.of.this", "root")
    logging.getLogger(NAME)
    before = {name: logging.getLogger(name).level for name in (NAME, "root")}
    yield
    for name in names:
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def alter(
    node: NodeHarness, *changes: tuple[str, int, str | None], name: str = "0", validate_only: bool = False
) -> tuple[ErrorCode, str | None]:
    entries = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": 8, "resource_name": name, "configs": entries}
    (told,) = node.ask("incremental_alter_configs", 1, resources=[resource], validate_only=validate_only).responses
    assert (told.resource_type, told.resource_name) == (8, name)
    return told.error_code, told.error_message


def describe(node: NodeHarness, *keys: str, name: str = "0", version: int = 4) -> Any:
    resource = {"resource_type": 8, "resource_name": name, "configuration_keys": keys or None}
    (told,) = node.ask("describe_configs", version, resources=[resource]).results
    return told


def level(node: NodeHarness, name: str = NAME) -> str | None:
    (entry,) = describe(node, name).configs
    value: str | None = entry.value
    return value


@pytest.mark.parametrize("version", versions("describe_configs"))
def test_each_logger_has_a_level(node: NodeHarness, version: int) -> None:
    logging.getLogger("root").setLevel(logging.WARNING)
    told = describe(node, version=version)
    assert told.error_code == ErrorCode.none
    values = {entry.name: entry.value for entry in told.configs}
    assert values["root"] == values[NAME] == values["highwater.broker.of.this"] == "WARN"
    assert not any(entry.read_only for entry in told.configs)
    if version >= 1:
        assert {entry.config_source for entry in told.configs} == {DYNAMIC_BROKER_LOGGER}


@pytest.mark.parametrize(
    ("word", "number"),
    [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)],
)
def test_a_level_is_set_and_removed_again(node: NodeHarness, word: str, number: int) -> None:
    logging.getLogger("root").setLevel(logging.ERROR)
    assert alter(node, (NAME, SET, word)) == (ErrorCode.none, None)
    assert (level(node), logging.getLogger(NAME).level) == (word, number)
    assert alter(node, (NAME, DELETE, None)) == (ErrorCode.none, None)
    assert level(node) == "ERROR"
    assert alter(node, ("highwater.broker.of.this", SET, word)) == (ErrorCode.none, None)
    assert level(node) == word, "that of the logger above it"


def test_a_request_that_validates_changes_nothing(node: NodeHarness) -> None:
    before = level(node)
    assert alter(node, (NAME, SET, "FATAL"), validate_only=True) == (ErrorCode.none, None)
    assert level(node) == before


@pytest.mark.parametrize(
    ("change", "error_code", "why"),
    [
        (("no.such", SET, "INFO"), ErrorCode.invalid_config, "Logger no.such does not exist!"),
        (("no.such", DELETE, None), ErrorCode.invalid_config, "Logger no.such does not exist!"),
        ((NAME, SET, "LOUD"), ErrorCode.invalid_config, f"Cannot set the log level of {NAME} to LOUD as it is not a"),
        ((NAME, SET, "info"), ErrorCode.invalid_config, f"Cannot set the log level of {NAME} to info as it is not a"),
        ((NAME, SET, None), ErrorCode.invalid_config, f"Cannot set the log level of {NAME} to None as it is not a"),
        (("root", DELETE, None), ErrorCode.invalid_request, "Removing the log level of the root logger is not allowed"),
        ((NAME, APPEND, "INFO"), ErrorCode.invalid_request, "APPEND operation is not allowed for the BROKER_LOGGER"),
        ((NAME, SUBTRACT, "INFO"), ErrorCode.invalid_request, "SUBTRACT operation is not allowed for the BROKER_LOG"),
        ((NAME, 9, "INFO"), ErrorCode.invalid_request, "Unknown operation type 9 is not allowed for the BROKER_LOGGER"),
    ],
)
def test_one_wrong_change_refuses_all(
    node: NodeHarness, change: tuple[str, int, str | None], error_code: ErrorCode, why: str
) -> None:
    logging.getLogger("root").setLevel(logging.ERROR)
    code, message = alter(node, (NAME, SET, "DEBUG"), change)
    assert code == error_code
    assert message is not None
    assert message.startswith(why)
    assert level(node) == "ERROR"


@pytest.mark.parametrize("name", ["", "1", "x"])
def test_loggers_are_those_of_this_broker(node: NodeHarness, name: str) -> None:
    expected = f"Unexpected broker id, expected 0, but received {name}"
    assert alter(node, (NAME, SET, "DEBUG"), name=name) == (ErrorCode.invalid_request, expected)
    told = describe(node, name=name)
    assert (told.error_code, told.error_message) == (ErrorCode.invalid_request, expected)


def test_all_settings_at_once_are_not_those_of_loggers(node: NodeHarness) -> None:
    entries = [{"name": NAME, "value": "DEBUG"}]
    resource = {"resource_type": 8, "resource_name": "0", "configs": entries}
    (told,) = node.ask("alter_configs", 2, resources=[resource], validate_only=False).responses
    assert told.error_code == ErrorCode.invalid_request
    assert told.error_message == "AlterConfigs does not change loggers; ask IncrementalAlterConfigs"
