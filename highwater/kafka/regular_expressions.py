"""Regular expressions in the syntax of RE2 that whole names match, in linear time: clients send them.

Python's `re` goes back and tries again: one pattern of a client could hold the event loop for ever. Here a pattern is a
list of steps, and a name is read once, with all steps at which the pattern can be (Thompson's construction).

Left out of RE2's syntax: classes of Unicode (`\\p{Greek}`) and one byte (`\\C`).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from highwater.kafka.pacing import paced

MOST_STEPS: Final = 2_000
"""The steps of a pattern. The work for one character of a name is in proportion to them."""
MOST_REPEATS: Final = 1_000
MOST_NESTED: Final = 100
"""Groups in groups: the parser calls itself for each."""

Test = Callable[[str], bool]


class PatternError(ValueError):
    """The text is no pattern, or one that takes too many steps."""


class _Step(NamedTuple):
    """One step: a character to take, a place to check, or a choice; without these, the pattern has matched."""

    takes: Test | None = None
    checks: Callable[[str, int], bool] | None = None
    goes_to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Flags:
    ignores_case: bool = False
    by_lines: bool = False
    dot_takes_newline: bool = False


class Pattern:
    """A pattern, compiled once. Raises PatternError."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_STEPS:
            raise PatternError(f"the pattern has more than {MOST_STEPS} characters")
        parser = _Parser(text)
        node = parser.alternatives(_Flags(), 0)
        if parser.rest():
            raise PatternError("a closing parenthesis without an opening one")
        self._steps: list[_Step] = [_Step()]
        self._work = 0
        self._first = self._add(node, 0)

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches all of `name`."""
        reached = self._closure([self._first], name, 0)
        for position, character in enumerate(paced(name), 1):
            if not reached:
                return False
            following = [
                step.goes_to[0]
                for step in map(self._steps.__getitem__, reached)
                if step.takes and step.takes(character)
            ]
            reached = self._closure(following, name, position)
        return 0 in reached

    def _closure(self, begin: Iterable[int], name: str, position: int) -> set[int]:
        """Return all steps that are reached without a further character."""
        reached: set[int] = set()
        waiting = list(begin)
        while waiting:
            index = waiting.pop()
            if index in reached:
                continue
            reached.add(index)
            step = self._steps[index]
            if step.takes is None and (step.checks is None or step.checks(name, position)):
                waiting += step.goes_to
        return reached

    def _step(self, step: _Step, work: int = 1) -> int:
        self._work += work
        if self._work > MOST_STEPS:
            raise PatternError(f"the pattern takes more than {MOST_STEPS} steps")
        self._steps.append(step)
        return len(self._steps) - 1

    def _add(self, node: _Node, then: int) -> int:
        """Add the steps of a node, after which the pattern goes on at `then`, and return the first of them."""
        if isinstance(node, _One):
            return self._step(_Step(takes=node.takes, goes_to=(then,)), node.work)
        if isinstance(node, _Place):
            return self._step(_Step(checks=node.checks, goes_to=(then,)))
        if isinstance(node, _Sequence):
            for part in reversed(node.parts):
                then = self._add(part, then)
            return then
        if isinstance(node, _Choice):
            return self._step(_Step(goes_to=tuple(self._add(part, then) for part in node.parts)))
        end = then
        if node.most is None:
            then = self._step(_Step())
            self._steps[then] = _Step(goes_to=(self._add(node.part, then), end))
        else:
            for _ in range(node.most - node.least):
                then = self._step(_Step(goes_to=(self._add(node.part, then), end)))
        for _ in range(node.least):
            then = self._add(node.part, then)
        return then


@dataclass(frozen=True, slots=True)
class _One:
    """One character, and how many comparisons decide whether it is one of those."""

    takes: Test
    work: int = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """A place between characters: the name, and how many of its characters are before it."""

    checks: Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: list[_Node]


@dataclass(frozen=True, slots=True)
class _Choice:
    parts: list[_Node]


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None


_Node = _One | _Place | _Sequence | _Choice | _Repeat

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES: Final = {
    "d": frozenset(string.digits),
    "s": frozenset("\t\n\f\r "),
    "w": _WORD,
}
_NAMED: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _is_word_boundary(name: str, position: int) -> bool:
    before = position > 0 and name[position - 1] in _WORD
    return before != (position < len(name) and name[position] in _WORD)


def _begins(name: str, position: int) -> bool:
    return position == 0


def _ends(name: str, position: int) -> bool:
    return position == len(name)


def _begins_line(name: str, position: int) -> bool:
    return position == 0 or name[position - 1] == "\n"


def _ends_line(name: str, position: int) -> bool:
    return position == len(name) or name[position] == "\n"


_PLACES: Final = {
    "A": _begins,
    "z": _ends,
    "b": _is_word_boundary,
    "B": lambda name, position: not _is_word_boundary(name, position),
}


def _one(test: Test, flags: _Flags, work: int = 1) -> _One:
    if not flags.ignores_case:
        return _One(test, work)
    return _One(lambda character: test(character) or test(character.lower()) or test(character.upper()), 3 * work)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rest(self) -> str:
        return self._text[self._at :]

    def alternatives(self, flags: _Flags, depth: int) -> _Node:
        """Up to a closing parenthesis or the end. A flag that is set alone holds up to there."""
        if depth > MOST_NESTED:
            raise PatternError("the pattern nests too deep")
        choices: list[_Node] = []
        parts: list[_Node] = []
        while self._at < len(self._text) and not self._looks_at(")"):
            if self._takes("|"):
                choices.append(_Sequence(parts))
                parts = []
            elif self._takes("\\Q"):
                quoted, end, _ = self.rest().partition("\\E")
                self._at += len(quoted) + len(end)
                literals = [_one(character.__eq__, flags) for character in quoted]
                parts += [*literals[:-1], *map(self._repeated, literals[-1:])]
            elif (found := self._flags_alone(flags)) is not None:
                flags = found
            else:
                parts.append(self._repeated(self._atom(flags, depth)))
        return _Choice([*choices, _Sequence(parts)]) if choices else _Sequence(parts)

    def _looks_at(self, token: str) -> bool:
        return self._text.startswith(token, self._at)

    def _takes(self, token: str) -> bool:
        is_there = self._looks_at(token)
        self._at += len(token) * is_there
        return is_there

    def _next(self, purpose: str) -> str:
        if self._at >= len(self._text):
            raise PatternError(f"the pattern ends within {purpose}")
        self._at += 1
        return self._text[self._at - 1]

    def _atom(self, flags: _Flags, depth: int) -> _Node:
        if self._bounds() is not None:
            raise PatternError("a repetition of nothing")
        character = self._next("an expression")
        if character == ".":
            return _One(lambda found: flags.dot_takes_newline or found != "\n")
        if character == "^":
            return _Place(_begins_line if flags.by_lines else _begins)
        if character == "$":
            return _Place(_ends_line if flags.by_lines else _ends)
        if character == "[":
            return self._set(flags)
        if character == "(":
            return self._group(flags, depth)
        if character == "\\":
            if self._at < len(self._text) and self._text[self._at] in _PLACES:
                return _Place(_PLACES[self._next("an escape")])
            found = self._escape()
            return _one(found.__eq__ if isinstance(found, str) else found, flags)
        return _one(character.__eq__, flags)

    def _group(self, flags: _Flags, depth: int) -> _Node:
        if self._takes("?P<") or self._takes("?<"):
            name, end, _ = self.rest().partition(">")
            if not end or not name or not _WORD.issuperset(name):
                raise PatternError("the name of a group is not one")
            self._at += len(name) + 1
        elif self._takes("?"):
            flags = self._flags(flags, ":")
        node = self.alternatives(flags, depth + 1)
        if not self._takes(")"):
            raise PatternError("an opening parenthesis without a closing one")
        return node

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        """Flags in parentheses that hold nothing else, or None if there are none."""
        if not self._looks_at("(?"):
            return None
        letters, end, _ = self._text[self._at + 2 :].partition(")")
        if not end or not letters or not set("imsU-").issuperset(letters):
            return None
        self._at += 2
        return self._flags(flags, ")")

    def _flags(self, flags: _Flags, end: str) -> _Flags:
        names = {"i": "ignores_case", "m": "by_lines", "s": "dot_takes_newline"}
        values = {name: getattr(flags, name) for name in names.values()}
        is_on, is_named = True, False
        while (letter := self._next("flags")) != end:
            if letter == "-" and is_on:
                is_on, is_named = False, False
            elif letter in names:
                values[names[letter]], is_named = is_on, True
            elif letter == "U":
                is_named = True  # Which match is preferred does not matter, as the whole name has to match.
            else:
                raise PatternError(f"{letter} is no flag")
        if not is_on and not is_named:
            raise PatternError("no flag after the minus")
        return _Flags(**values)

    def _repeated(self, part: _Node) -> _Node:
        is_repeated = False
        while (bounds := self._bounds()) is not None:
            least, most = bounds
            if is_repeated:
                raise PatternError("a repetition of a repetition")
            if least > MOST_REPEATS or (most is not None and not least <= most <= MOST_REPEATS):
                raise PatternError("a count of repetitions is too large, or its bounds are the wrong way round")
            self._takes("?")
            part, is_repeated = _Repeat(part, least, most), True
        return part

    def _bounds(self) -> tuple[int, int | None] | None:
        """The least and the most repetitions; None if nothing is repeated."""
        for token, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(token):
                return bounds
        if not self._looks_at("{"):
            return None
        text, end, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = text.partition(",")
        if not end or not all(_is_number(number) for number in (least, *((most,) if most else ()))):
            return None  # Then it is a brace like any other character.
        self._at += len(text) + 2
        return int(least), int(most) if most else None if comma else int(least)

    def _escape(self) -> str | Test:
        """The character, or the class, after a backslash."""
        letter = self._next("an escape")
        if letter.lower() in _CLASSES:
            members = _CLASSES[letter.lower()]
            return members.__contains__ if letter.islower() else lambda found: found not in members
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            return self._hexadecimal()
        if letter == "0" or (letter in "1234567" and self.rest()[:1] in tuple("01234567")):
            digits = letter
            while len(digits) < 3 and self.rest()[:1] in tuple("01234567"):
                digits += self._next("an escape")
            return chr(int(digits, 8))
        if not letter.isascii() or letter.isalnum():
            raise PatternError(f"the escape \\{letter} is not known")
        return letter

    def _hexadecimal(self) -> str:
        if self._takes("{"):
            digits, _, _ = self.rest().partition("}")
            self._at += len(digits) + 1
        else:
            digits = self.rest()[:2]
            self._at += 2
        if not digits or not set(string.hexdigits).issuperset(digits) or self._at > len(self._text):
            raise PatternError("\\x without its hexadecimal digits")
        if len(digits) > 8 or int(digits, 16) > 0x10FFFF:
            raise PatternError("\\x of no character")
        return chr(int(digits, 16))

    def _set(self, flags: _Flags) -> _Node:
        """What is between brackets."""
        is_negated = self._takes("^")
        tests: list[Test] = []
        ranges: list[tuple[str, str]] = []
        is_first = True
        while is_first or not self._takes("]"):
            is_first = False
            if self._takes("[:"):
                tests.append(self._named_class())
                continue
            low = self._member()
            if not isinstance(low, str):
                tests.append(low)
            elif self._looks_at("-") and not self._looks_at("-]"):
                self._at += 1
                high = self._member()
                if not isinstance(high, str) or high < low:
                    raise PatternError("a range between brackets is none")
                ranges.append((low, high))
            else:
                ranges.append((low, low))

        def contains(found: str) -> bool:
            return any(low <= found <= high for low, high in ranges) or any(test(found) for test in tests)

        member = _one(contains, flags, len(ranges) + len(tests))
        return _One(lambda found: not member.takes(found), member.work) if is_negated else member

    def _member(self) -> str | Test:
        character = self._next("brackets")
        return self._escape() if character == "\\" else character

    def _named_class(self) -> Test:
        name, end, _ = self.rest().partition(":]")
        self._at += len(name) + 2
        members = _NAMED.get(name.removeprefix("^"))
        if not end or members is None:
            raise PatternError(f"there is no class [:{name}:]")
        return (lambda found: found not in members) if name.startswith("^") else members.__contains__


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
