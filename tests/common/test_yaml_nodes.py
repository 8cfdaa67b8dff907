"""YAML that is there to exhaust its reader ends in one line."""

from __future__ import annotations

import pytest
import yaml

from highwater.common.yaml_nodes import DocumentError, parse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 2000, "f.yaml: nested too deeply"),
        ("a: " + "{b: " * 2000, "f.yaml: nested too deeply"),
        ("- " * 3000, "f.yaml: nested too deeply"),
        ("a: " + "[" * 20 + "]" * 20, "f.yaml:1: nested too deeply"),
        ("a: &a [*a]", "f.yaml:1: nested too deeply"),
        (f"a: {'9' * 5000}", "f.yaml:1: a: '999"),
    ],
)
def test_what_python_cannot_hold_is_one_line(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(yaml, text, "f.yaml", "a: 1")
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) < 300
