"""Each regular expression of the product takes time in proportion to the length of its text, whatever the text is."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib
import itertools
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined, unused-ignore]
from re import _parser  # type: ignore[attr-defined, unused-ignore]
from types import FrameType
from typing import Any, Final, NamedTuple, cast

import pytest

from tests.import_graph import import_nodes, place_of, rooms

ROOT: Final = Path(__file__).parent.parent
PLACES: Final = (*(place_of(room) for room in rooms()), ROOT / "playbooks")
LENGTHS: Final = (10_000, 50_000, 200_000)
"""A pattern that is linear takes some milliseconds for the longest; one that is quadratic takes a minute."""
CPU_S: Final = 0.5
"""CPU time of this process, which others on the host do not take."""
SEARCHING: Final = frozenset(("search", "sub", "subn", "findall", "finditer", "split"))
FUNCTIONS: Final = SEARCHING | {"compile", "match", "fullmatch"}
LONG_REPEAT: Final = 1000


class Use(NamedTuple):
    where: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    methods: frozenset[str]


OF_USERS: Final = {
    "highwater/admin/mirroring/topics.py": "an option of a command, over names of topics",
    "highwater/admin/topics.py": "an option of a command, over names of topics",
    "broker/security/principal.py": "a setting of the broker, over names that its own authority signed",
    "pipeline/source/options.py": "an option of a query, over names of topics",
    "pipeline/source/positions.py": "an option of a query, over names of topics",
}
"""Where a user's own expression is compiled, and what it is used for."""


def is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def files() -> list[Path]:
    return [file for place in PLACES for file in sorted(place.rglob("*.py"))]


@functools.cache
def sources() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text()) for file in files()}


def methods_of(name: str, trees: Iterable[ast.Module]) -> frozenset[str]:
    """Which methods are called on what has a name, such as `_LINE.search(…)`."""
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
                owner = node.value
                if name in (getattr(owner, "id", ""), getattr(owner, "attr", "")):
                    found.add(node.attr)
    return frozenset(found - {"compile"})


def names_of(tree: ast.Module) -> dict[ast.AST, str]:
    """The name that each value of an assignment gets."""
    names: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.value is not None:
            names[node.value] = node.targets[0].id
        elif isinstance(node, ast.keyword) and node.arg is not None:
            names[node.value] = node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            names[node.value] = node.target.id
    return names


@functools.cache
def namespace_of(file: Path, tree: ast.Module) -> dict[str, Any]:
    """The names that the patterns of a file are made from. Ansible alone can import the modules of playbooks."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts[parts[0] == "highwater" :]
    if parts[0] != "playbooks":
        return vars(importlib.import_module(".".join(("highwater", *parts)).removesuffix(".__init__")))
    names: dict[str, Any] = {"re": re}
    for value, name in names_of(tree).items():
        with contextlib.suppress(Exception):
            names[name] = value_of(cast(ast.expr, value), names)
    return names


class WithoutNames(ast.NodeTransformer):
    """What a text of the product stands for when the program runs is a name without a quantifier."""

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        return ast.Constant("name")

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return cast(ast.expr, self.visit(node.body))


def value_of(expression: ast.expr, names: dict[str, Any]) -> Any:
    """Raises NameError for a pattern that is no constant."""
    try:
        return evaluated(expression, names)
    except NameError:
        return evaluated(WithoutNames().visit(copy.deepcopy(expression)), names)


def evaluated(expression: ast.expr, names: dict[str, Any]) -> Any:
    tree = ast.fix_missing_locations(ast.Expression(expression))
    return eval(compile(tree, "pattern", "eval"), names)  # noqa: S307 - the text is the product's


def patterns_given(call: ast.Call, file: Path) -> Iterator[Any]:
    """The values of the pattern of a call, which may be a parameter of the function around it. Raises NameError."""
    tree = sources()[file]
    try:
        yield value_of(call.args[0], namespace_of(file, tree))
    except NameError:
        function = next(
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and call in list(ast.walk(node))
        )
        parameters = [each.arg for each in function.args.args if each.arg != "self"]
        if not isinstance(call.args[0], ast.Name) or call.args[0].id not in parameters:
            raise
        position = parameters.index(call.args[0].id)
        places = {file: tree} if function.name.startswith("_") else sources()
        for other, other_tree in places.items():
            for node in ast.walk(other_tree):
                if (
                    isinstance(node, ast.Call)
                    and len(node.args) == len(parameters)
                    and function.name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
                ):
                    yield value_of(node.args[position], namespace_of(other, other_tree))


def uses_in(file: Path) -> Iterator[Use]:
    tree = sources()[file]
    names = names_of(tree)
    for call in [node for node in ast.walk(tree) if is_call_of_re(node)]:
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Attribute)
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        flags = given.get("flags")
        position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(call.func.attr, 2)
        if flags is None and len(call.args) > position:
            flags = call.args[position]
        number = 0 if flags is None else value_of(flags, namespace_of(file, tree))
        methods = frozenset((call.func.attr,))
        if call.func.attr == "compile":
            name = names.get(call, "")
            methods = methods_of(name, [tree]) or methods_of(name, sources().values()) or SEARCHING
        for text in patterns_given(call, file):
            yield Use(f"{file.relative_to(ROOT)}:{call.lineno}", re.compile(text, number), methods)


# Hostile texts


class Repeat(NamedTuple):
    before: str
    """A text that the pattern matches before it repeats something."""
    body: Any


def characters(items: Any, ignore_case: bool = False) -> set[str]:
    """Which of the ASCII characters a set has."""
    found: set[str] = set()
    negated = False
    for code, value in items:
        if code is op.NEGATE:
            negated = True
        elif code is op.LITERAL:
            found.add(chr(value))
        elif code is op.RANGE:
            found |= {chr(number) for number in range(value[0], min(value[1], 127) + 1)}
        elif code is op.CATEGORY:
            pattern = {
                op.CATEGORY_DIGIT: r"\d",
                op.CATEGORY_NOT_DIGIT: r"\D",
                op.CATEGORY_SPACE: r"\s",
                op.CATEGORY_NOT_SPACE: r"\S",
                op.CATEGORY_WORD: r"\w",
                op.CATEGORY_NOT_WORD: r"\W",
            }[value]
            found |= {chr(number) for number in range(128) if re.match(pattern, chr(number))}
    return {chr(number) for number in range(128)} - found if negated else found


PREFERRED: Final = "a0 /:-.=,_\"'\\\t\n"


def one_of(found: set[str]) -> str:
    return next((each for each in PREFERRED if each in found), min(found, default=""))


def first_characters(nodes: Any) -> set[str]:
    """Characters that a part of a pattern can begin with."""
    found: set[str] = set()
    for code, value in nodes:
        if code is op.LITERAL:
            return found | {chr(value)}
        if code is op.NOT_LITERAL:
            return found | characters([(op.NEGATE, None), (op.LITERAL, value)])
        if code is op.ANY:
            return found | {chr(number) for number in range(128) if chr(number) != "\n"}
        if code is op.IN:
            return found | characters(value)
        if code is op.BRANCH:
            for branch in value[1]:
                found |= first_characters(branch)
            return found
        if code is op.SUBPATTERN:
            inner = value[3]
            found |= first_characters(inner)
            if inner.getwidth()[0]:
                return found
        elif code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            found |= first_characters(value[2])
            if value[0]:
                return found
        elif code is op.ATOMIC_GROUP:
            return found | first_characters(value)
    return found


def sample(nodes: Any, often: bool = False) -> str:
    """A text that a part of a pattern matches; with `often`, what may be absent is there once."""
    text = ""
    for code, value in nodes:
        if code is op.LITERAL:
            text += chr(value)
        elif code in (op.NOT_LITERAL, op.ANY, op.IN):
            text += one_of(first_characters([(code, value)]))
        elif code is op.BRANCH:
            text += sample(value[1][0], often)
        elif code is op.SUBPATTERN:
            text += sample(value[3], often)
        elif code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            text += sample(value[2], often) * max(value[0], int(often))
        elif code is op.ATOMIC_GROUP:
            text += sample(value, often)
    return text


def repeats(nodes: Any, before: str = "") -> Iterator[Repeat]:
    """What a pattern repeats without a limit, or often."""
    for code, value in nodes:
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            if value[1] >= LONG_REPEAT:
                yield Repeat(before, value[2])
            yield from repeats(value[2], before)
        elif code is op.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, before)
        elif code is op.SUBPATTERN:
            yield from repeats(value[3], before)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from repeats(value[1], before)
        elif code is op.ATOMIC_GROUP:
            yield from repeats(value, before)
        before += sample([(code, value)])


class Hostile(NamedTuple):
    begin: str
    again: str
    end: str

    def text(self, length: int) -> str:
        return self.begin + self.again * (length // len(self.again)) + self.end


def hostile_texts(pattern: re.Pattern[Any], methods: frozenset[str]) -> set[Hostile]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = _parser.parse(text, pattern.flags & ~re.UNICODE)
    found = list(repeats(parsed))
    texts: set[Hostile] = set()
    for one in found:
        own = first_characters(one.body)
        pumps = {sample(one.body, often) for often in (False, True)} | {
            one_of(own & first_characters(other.body)) for other in found
        }
        begins = {"", one.before, sample(one.body)} if methods & SEARCHING else {one.before}
        texts |= {
            Hostile(begin, pump, end) for pump in pumps - {""} for begin in begins for end in ("", "\0", "\n", "\n\0")
        }
        if methods & SEARCHING:
            again = {one.before, one.before + sample(one.body, often=True)}
            texts |= {Hostile("", each, "") for each in again - {""}}
    return texts


class TooLongError(Exception):
    pass


@contextmanager
def cpu_limit() -> Iterator[None]:
    def expired(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def call(pattern: re.Pattern[Any], method: str, subject: str | bytes) -> None:
    if method in ("sub", "subn"):
        getattr(pattern, method)(subject[:0], subject)
    elif method == "finditer":
        for _ in pattern.finditer(subject):
            pass
    else:
        getattr(pattern, method)(subject)


def text_that_takes_too_long(use: Use) -> str:
    """How the text begins for which a pattern takes too long; empty if there is none."""
    for hostile, method in itertools.product(hostile_texts(use.pattern, use.methods), use.methods):
        # Python looks for a signal rarely while it searches, so that what is slow has to be seen with a short text.
        for length in LENGTHS:
            text = hostile.text(length)
            subject = text if isinstance(use.pattern.pattern, str) else text.encode("latin-1")
            try:
                with cpu_limit():
                    call(use.pattern, method, subject)
            except TooLongError:
                return f"{method}: {length} characters, {text[:40]!r}"
    return ""


def files_with_patterns() -> list[Path]:
    """By their text, as every worker of pytest asks for them: parsing the product takes seconds."""
    call = re.compile(rf"\bre\.({'|'.join(sorted(FUNCTIONS))})\(")
    return [file for file in files() if call.search(file.read_text()) and str(file.relative_to(ROOT)) not in OF_USERS]


@pytest.mark.slow
@pytest.mark.parametrize("file", files_with_patterns(), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_text_makes_a_pattern_slow(file: Path) -> None:
    slow = {f"{use.where}: {text}" for use in uses_in(file) if (text := text_that_takes_too_long(use))}
    assert not slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"^authorization:[ \t]*(.*?)[ \t]*\r$", "findall"),
        (r"[a-z]+://[^/\s:@]*:[^/\s@]+@", "search"),
        (r"/\*.*?\*/", "sub"),
        (r"\s*(\d+)\s*(ms|s)?\s*", "fullmatch"),
        (r"(\w+\s?)+:", "match"),
    ],
)
def test_a_slow_pattern_is_found(pattern: str, method: str) -> None:
    use = Use("here", re.compile(pattern, re.MULTILINE), frozenset((method,)))
    assert text_that_takes_too_long(use)


def test_patterns_come_from_one_module_by_its_own_name() -> None:
    """So that the calls above are all there are."""
    for file in files():
        for node in import_nodes(file):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "re", file
            else:
                assert all(name.asname is None for name in node.names if name.name == "re"), file


def test_each_place_of_a_users_expression_has_one() -> None:
    for place in OF_USERS:
        with pytest.raises(NameError):
            list(uses_in(ROOT / place))
