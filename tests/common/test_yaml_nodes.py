"""YAML that exhausts its reader, or that misleads a person, ends in one line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import parse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 2000, "f.yaml: nested too deeply"),
        ("a: " + "{b: " * 2000, "f.yaml: nested too deeply"),
        ("- " * 3000, "f.yaml: nested too deeply"),
        ("a: " + "[" * 20 + "]" * 20, "f.yaml:1: nested too deeply"),
        ("a: &a [*a]", "f.yaml:1: nested too deeply"),
        (f"a: {'9' * 5000}", "f.yaml:1: a: '999"),
        (f"a: 0{'9' * 5000}", "f.yaml:1: a: '099"),
    ],
)
def test_what_python_cannot_hold_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(yaml, text, "f.yaml", "a: 1")
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) < 300


def value_of(text: str) -> Any:
    return parse(yaml, f"name: n\nkey: {text}\n", "f.yaml", "name: n").data["key"]


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("010", "YAML 1.1 reads 8 and YAML 1.2 10"),
        ("08", "YAML 1.1 reads text and YAML 1.2 8"),
        ("-010", "YAML 1.1 reads -8 and YAML 1.2 -10"),
        ("0o10", "YAML 1.1 reads text and YAML 1.2 8"),
        ("0b11", "YAML 1.1 reads 3 and YAML 1.2 text"),
        ("1:30", "YAML 1.1 reads 90 and YAML 1.2 text"),
        ("1:30.5", "YAML 1.1 reads 90.5 and YAML 1.2 text"),
        ("1_000", "YAML 1.1 reads 1000 and YAML 1.2 text"),
        ("1e3", "YAML 1.1 reads text and YAML 1.2 1000.0"),
        ("yes", "YAML 1.1 reads true and YAML 1.2 text"),
        ("Off", "YAML 1.1 reads false and YAML 1.2 text"),
        ("[1, [yes]]", "YAML 1.1 reads true and YAML 1.2 text"),
    ],
)
def test_what_versions_of_yaml_read_differently_is_an_error(text: str, readings: str) -> None:
    with pytest.raises(UsageError, match=r"^f\.yaml:2: key") as found:
        value_of(text)
    assert readings in str(found.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("10", 10),
        ("-7", -7),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.0e+3", 1000.0),
        ("-.inf", float("-inf")),
        ("true", True),
        ("~", None),
        ("", None),
        ("'010'", "010"),
        ('"1:30"', "1:30"),
        ("!!str 010", "010"),
        ("2026-11-28", "2026-11-28"),
        ("15m", "15m"),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
        ("1.2.3", "1.2.3"),
        ("y", "y"),
    ],
)
def test_what_all_versions_of_yaml_read_alike_is_a_value(text: str, value: Any) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


def test_a_number_that_is_none_is_one() -> None:
    assert value_of(".nan") != value_of(".nan")
