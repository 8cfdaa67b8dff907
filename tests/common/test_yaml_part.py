"""Values of a YAML file: what is refused, and that each refusal is one line with file, line, key and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import parse
from highwater.common.yaml_part import Part

ENVIRONMENT = {"NAME": "s3cret"}
REFUSED = "a secret does not belong into a file: write ${NAME}, and set NAME in the environment"


def part(text: str) -> Part:
    return Part(parse(yaml, f"# first\n{text}\n", "a.yaml", "name: a"), ENVIRONMENT, Path("/etc/a"))


@pytest.mark.parametrize(
    ("text", "read", "refusal"),
    [
        ("a: {nmae: x}", lambda root: root.part("a").check_keys(["name"]), "a.nmae: unknown key; did you mean name?"),
        ("x: 1", lambda root: root.check_keys(["name", "b"]), "x: unknown key; known here: name, b"),
        ("a: 1", lambda root: root.part("a"), "a: is not a mapping of keys to values"),
        ("a:", lambda root: root.part("a"), "a: has no value"),
        ("a: {b: 1}", lambda root: root.parts("a"), "a.b: is not a mapping of keys to values"),
        ("a: {}", lambda root: root.part("a").text("b"), "a.b: is missing"),
        ("a: {}", lambda root: root.part("a").fail(None, "is odd"), "a: is odd"),
        ("a:", lambda root: root.text("a"), "a: has no value"),
        ("a: ' '", lambda root: root.text("a"), "a: has no value"),
        ("a: [1]", lambda root: root.text("a"), "a: is not text"),
        ("a: ${NOBODY}", lambda root: root.text("a"), "a: the environment variable NOBODY is not set"),
        ("a: http://u:pw@h", lambda root: root.text("a"), f"a: {REFUSED}"),
        ("a: http://u:$${NAME}@h", lambda root: root.text("a"), f"a: {REFUSED}"),
        ("a: http://h?token=pw", lambda root: root.text("a"), f"a: {REFUSED}"),
        ("a: pw", lambda root: root.secret("a"), f"a: {REFUSED}"),
        ("a: $${NAME}", lambda root: root.secret("a"), f"a: {REFUSED}"),
        ("a: {sasl.password: pw}", lambda root: root.texts("a"), f"a.sasl.password: {REFUSED}"),
        ("a: {Cookie: pw}", lambda root: root.headers("a"), f"a.Cookie: {REFUSED}"),
        ("a: c", lambda root: root.choice("a", ["b", "d"], "b"), "a: 'c' is none of b, d"),
        ("a: 0", lambda root: root.count("a", 1), "a: '0' is not a positive whole number"),
        ("a: 1.5", lambda root: root.integer("a", 0), "a: '1.5' is not a whole number of at least 0"),
        ("a: -1", lambda root: root.integer("a", 0), "a: '-1' is not a whole number of at least 0"),
        ("a: {b: 1}", lambda root: root.items("a"), "a: is not a list: each item begins with '- '"),
        ("a: [{b: c}, 1]", lambda root: root.items("a"), "a[1]: is not a mapping of keys to values"),
        ("a: [{b: ''}]", lambda root: root.items("a")[0].text("b"), "a[0].b: has no value"),
        ("a: maybe", lambda root: root.switch("a", default=True), "a: 'maybe' is neither true nor false"),
        (
            "a: 5",
            lambda root: root.seconds("a", 1),
            "a: '5' is not a duration with its unit (us, ms, s, m or min, h, d)",
        ),
        ("a: many", lambda root: root.size_bytes("a", 1), "a: 'many' is not a size"),
        ("a: {b: c}", lambda root: root.several("a"), "a: is not a list of texts"),
        ("a: [true]", lambda root: root.numbers("a"), "a: is not a list of whole numbers, such as [1, 2]"),
        ("a: x", lambda root: root.read("a", int), "a: invalid literal for int()"),
    ],
)
def test_a_refusal_is_one_line_with_its_place(text: str, read: Callable[[Part], object], refusal: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(part(text))
    assert str(refused.value).startswith(f"a.yaml:2: {refusal}")
    assert "\n" not in str(refused.value)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "read", "value"),
    [
        ("a: x${NAME}y", lambda root: root.text("a"), "xs3crety"),
        ("a: $${NAME} $NAME", lambda root: root.text("a"), "${NAME} $NAME"),
        ("a: ${NAME}", lambda root: root.raw_text("a"), "${NAME}"),
        ("a: true", lambda root: root.text("a"), "true"),
        ("b: 1", lambda root: root.text("a", "x"), "x"),
        ("a: http://u:${NAME}@h", lambda root: root.text("a"), "http://u:s3cret@h"),
        ("a: {Password: '${NAME}', b: 1}", lambda root: root.texts("a"), {"Password": "s3cret", "b": "1"}),
        ("a: {Cookie: '${NAME}', Accept: b}", lambda root: root.headers("a"), {"Cookie": "s3cret", "Accept": "b"}),
        ("b: 1", lambda root: root.secret("a"), ""),
        ("b: 1", lambda root: root.texts("a"), {}),
        ("b: 1", lambda root: list(root.parts("a")), []),
        ("b: 1", lambda root: root.part("a").seconds("c", 7), 7),
        ("a: 2min", lambda root: root.seconds("a", 1), 120),
        ("a: 2KiB", lambda root: root.size_bytes("a", 1), 2048),
        ("a: b", lambda root: root.path("a"), Path("/etc/a/b")),
        ("a: /b", lambda root: root.path("a"), Path("/b")),
        ("a: [b, ~/c]", lambda root: root.paths("a"), (Path("/etc/a/b"), Path("~/c").expanduser())),
        ("a: b", lambda root: root.several("a"), ("b",)),
        ("a: [1, 2]", lambda root: root.numbers("a"), (1, 2)),
        ("a: '7'", lambda root: root.read("a", int), 7),
        ("b: 1", lambda root: root.read("a", int), None),
        ("a: 3", lambda root: root.count("a", 1), 3),
        ("a: -3", lambda root: root.integer("a", -5), -3),
        ("b: 1", lambda root: root.integer("a", 0, 7), 7),
        ("a: [{b: 1}, {b: 2}]", lambda root: [each.text("b") for each in root.items("a")], ["1", "2"]),
        ("b: 1", lambda root: root.items("a"), []),
        ("a: {b: {}}", lambda root: root.parts("a")["b"].origin, "a.yaml:2"),
    ],
)
def test_a_value(text: str, read: Callable[[Part], Any], value: object) -> None:
    assert read(part(text)) == value
