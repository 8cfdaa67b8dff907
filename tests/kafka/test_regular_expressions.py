"""Patterns of clients against what RE2/J of Kafka 4.4 says of them (re2j 1.8, `Pattern.compile(p).matches(name)`)."""

from __future__ import annotations

import pytest

from highwater.kafka.regular_expressions import Pattern, PatternError

# By pattern: names that match, and names that do not.
MATCHES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("",), ("a",)),
    "orders": (("orders",), ("orders-1", "my-orders", "Orders")),
    "orders.*": (("orders", "orders-1"), ("my-orders", "orders\n")),
    "tx-[0-9]+": (("tx-0", "tx-42"), ("tx-", "tx-4a")),
    "(a|bc)*d?": (("", "abcd", "bcbc"), ("b", "dd")),
    "a{2}|b{1,3}c{2,}": (("aa", "bcc", "bbbcccc"), ("a", "aaa", "bbbbcc", "bc")),
    "a{,3}{": (("a{,3}{",), ("a", "aaa{")),
    "x*?y+?": (("y", "xxyy"), ("x",)),
    r"\w+\.\d\D\s\S\W": (("a_1.5x y-",), ("a.5xyy-", "a.55 y-")),
    r"\Qa.b*\E+": (("a.b*", "a.b***"), ("a.b", "axb*")),
    r"\x41\x{e9}\101\n\.": (("AéA\n.",), ("AéA\nx",)),
    "[]a-c-]+": (("]", "a-c"), ("d",)),
    r"[^\d[:upper:]_]": (("a", "é"), ("1", "A", "_", "")),
    "[[:^alpha:]]": (("1",), ("a",)),
    "(?i)straße-[a-c]": (("STRAßE-B",), ("STRASSE-B",)),
    "(?i)[^k]": (("j",), ("k", "K", "\u212a")),
    "(?i:a)b": (("Ab",), ("AB",)),
    "a(?i)b|c": (("aB", "C"), ("AB",)),
    "(?P<one>a)(?<two>b)": (("ab",), ("a",)),
    "a.b": (("a-b",), ("a\nb",)),
    "(?s)a.b": (("a\nb",), ("ab",)),
    "(?m)a$.^b": ((), ("a\nb",)),
    "(?ms-U)a$.^b": (("a\nb",), ("ab",)),
    r"^\Aa\b-\B$\z": (("a-",), ("a", "a-b")),
}
NO_PATTERNS = (
    "*a", "a|+", "{2}", "a**", "a{1001}", "a{3,2}", "(a", "a)", "(?P<>a)", "(?<a-b>c)", "(?", "(?x)", "(?i", "(?-)",
    "[a", "[b-a]", "[[:no:]]", "[", "\\", r"\8", r"\x", r"\x{110000}", r"\x{41", r"(?=a)", r"\1", r"\Z",
)  # fmt: skip


@pytest.mark.parametrize("pattern", MATCHES)
def test_names_match_as_a_whole(pattern: str) -> None:
    matching, others = MATCHES[pattern]
    compiled = Pattern(pattern)
    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize("pattern", NO_PATTERNS)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_a_pattern_that_would_take_for_ever_with_backtracking() -> None:
    """Python's `re` takes 2^40 steps for the first, and as many as the name is long to the fourth for the second."""
    assert not Pattern("(a*)*(a|a)*b").matches("a" * 1000)
    assert not Pattern("a*a*a*a*b").matches("a" * 1000)
    assert Pattern("(a|aa)+").matches("a" * 1000)


@pytest.mark.parametrize("pattern", ["(a{50}){50}", "[a-zé]" * 30_000])
def test_patterns_that_take_too_much_work(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"repetition|too large"):
        Pattern(pattern)
