"""Java properties, beside another reader of the same format."""

from __future__ import annotations

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.common.java_properties import MalformedEscape, Property, format_properties, parse_properties

# What the format gives a meaning to, and some characters that it leaves alone.
TEXTS = st.text(st.sampled_from("ab=:#!\\ \t\f\n\ruü€𝄞0041"), max_size=40)


def test_lines_are_read_as_java_reads_them() -> None:
    text = (
        "# comment\n! another\n\n"
        "   num.partitions = 3\r\n"
        "listeners:PLAINTEXT://\\\n"
        "    localhost:9092\n"
        "broker.rack rack\\u0031\n"
        "log.dirs=C:\\\\logs\\tx\n"
        "key\\ with\\=escapes=v # not a comment\n"
        "empty\n"
        "# a comment is not continued \\\n"
        "last=1\\"
    )
    assert [(line, name, value) for line, name, value, _ in parse_properties(text)] == [
        (4, "num.partitions", "3"),
        (5, "listeners", "PLAINTEXT://localhost:9092"),
        (7, "broker.rack", "rack1"),
        (8, "log.dirs", "C:\\logs\tx"),
        (9, "key with=escapes", "v # not a comment"),
        (10, "empty", ""),
        (12, "last", "1"),
    ]


@pytest.mark.parametrize(("text", "is_bare"), [("a", True), ("a=", False), ("a b", False), ("a:", True)])
def test_a_line_that_is_only_a_name_can_be_told(text: str, is_bare: bool) -> None:
    (found,) = parse_properties(text)
    assert found.is_bare is is_bare
    assert found.source == text


def test_a_malformed_escape_is_told_with_its_line_and_no_word_of_it() -> None:
    with pytest.raises(MalformedEscape, match="four hexadecimal digits") as caught:
        parse_properties("a=1\nb=secret\\u12")
    assert caught.value.line == 2
    assert "secret" not in str(caught.value)


@given(TEXTS)
def test_another_reader_reads_the_same(text: str) -> None:
    try:
        expected = [
            (item.key, item.value) for item in javaproperties.parse(text) if isinstance(item, javaproperties.KeyValue)
        ]
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(MalformedEscape):
            parse_properties(text)
    else:
        assert [(item.name, item.value) for item in parse_properties(text)] == expected


@given(st.dictionaries(TEXTS.filter(bool), TEXTS))
def test_what_is_written_is_read_back_by_both(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert {item.name: item.value for item in parse_properties(text)} == properties
    assert javaproperties.loads(text) == properties


def test_values_stay_readable() -> None:
    assert format_properties({"listeners": "PLAINTEXT://h:1", "log.dirs": "/a b/ü"}) == (
        "listeners=PLAINTEXT://h:1\nlog.dirs=/a b/\\u00fc\n"
    )


def test_a_property_is_a_value() -> None:
    assert parse_properties("a = b") == [Property(1, "a", "b", "a = b")]
