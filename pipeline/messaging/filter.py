"""Filter expressions: RocketMQ's subset of SQL92 over headers, key, topic and time, by a grammar.

A comparison with a header that a record does not have is neither true nor false, as in SQL, and a record is taken only
if the whole expression is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from highwater.pipeline.errors import PipelineError
from highwater.pipeline.messaging.record import Record

Value: TypeAlias = str | float | int | bool | None
Test: TypeAlias = Callable[[Record], bool | None]
Predicate: TypeAlias = Callable[[Record], bool]
_Operand: TypeAlias = Callable[[Record], Value]

_GRAMMAR: Final = r"""
?start: any
?any: all (_OR all)*
?all: negation (_AND negation)*
?negation: _NOT negation -> no
    | test
?test: operand OPERATOR operand -> compare
    | operand _IS _NULL -> is_null
    | operand _IS _NOT _NULL -> is_not_null
    | operand _BETWEEN operand _AND operand -> between
    | operand _NOT _BETWEEN operand _AND operand -> not_between
    | operand _IN "(" operand ("," operand)* ")" -> is_in
    | operand _NOT _IN "(" operand ("," operand)* ")" -> is_not_in
    | operand SEARCH operand -> search
    | operand _NOT SEARCH operand -> not_search
    | "(" any ")"
    | operand -> truth
?operand: NAME -> name
    | QUOTED_NAME -> header
    | NUMBER -> number
    | TEXT -> text
    | TRUE -> true
    | FALSE -> false
OPERATOR: "<>" | "!=" | "<=" | ">=" | "=" | "<" | ">"
SEARCH.2: /(contains|startswith|endswith)(?![\w$.-])/i
_OR.2: /or(?![\w$.-])/i
_AND.2: /and(?![\w$.-])/i
_NOT.2: /not(?![\w$.-])/i
_IS.2: /is(?![\w$.-])/i
_NULL.2: /null(?![\w$.-])/i
_IN.2: /in(?![\w$.-])/i
_BETWEEN.2: /between(?![\w$.-])/i
TRUE.2: /true(?![\w$.-])/i
FALSE.2: /false(?![\w$.-])/i
NAME: /[A-Za-z_$][\w$.-]*/
QUOTED_NAME: /"[^"]+"/
NUMBER: /[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?/i
TEXT: /'([^']|'')*'/
%import common.WS
%ignore WS
"""
_PARSER: Final = Lark(_GRAMMAR, parser="lalr")
_NUMBER_TEXT: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_DIGITS_MAX: Final = 300
_EXPECTED: Final = {
    "OPERATOR": "a comparison",
    "NAME": "a name",
    "NUMBER": "a number",
    "TEXT": "a text in '…'",
    "LPAR": "(",
    "RPAR": ")",
    "$END": "the end",
    "_AND": "AND",
    "_OR": "OR",
}


class FilterError(PipelineError):
    """The expression cannot be understood; the text says where."""


def parse_filter(expression: str) -> Predicate:
    """Return what says whether a record is taken. Raises FilterError."""
    try:
        test: Test = _Tests().transform(_PARSER.parse(expression))
    except UnexpectedInput as error:
        raise FilterError(f"filter {expression!r}: {_problem(expression, error)}") from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise FilterError(f"filter {expression!r}: {error.orig_exc}") from None
        raise
    except RecursionError:
        raise FilterError("the filter is nested too deeply") from None
    return lambda record: test(record) is True


def _problem(expression: str, error: UnexpectedInput) -> str:
    expected: Any = ()
    if isinstance(error, UnexpectedCharacters):
        place = f"{expression[error.pos_in_stream or 0]!r} at {error.column} is not understood"
        expected = error.allowed or ()
    elif isinstance(error, UnexpectedToken):
        place = f"{str(error.token)!r} at {error.column} is not understood" if error.token else "it ends too early"
        expected = error.accepts or error.expected or ()
    else:
        place = "it ends too early"
    words = [text for name, text in _EXPECTED.items() if name in expected]
    return f"{place}; expected is {' or '.join(words)}" if words else place


class _Tests(Transformer[Token, Any]):
    """Makes a test of each node of the tree. Names of methods are those of the grammar's rules."""

    def name(self, children: list[Token]) -> _Operand:
        name = str(children[0])
        return _FIELDS.get(name, _header(name))

    def header(self, children: list[Token]) -> _Operand:
        return _header(str(children[0])[1:-1])

    def number(self, children: list[Token]) -> _Operand:
        return _constant(_number(str(children[0])))

    def text(self, children: list[Token]) -> _Operand:
        return _constant(str(children[0])[1:-1].replace("''", "'"))

    def true(self, _: list[Token]) -> _Operand:
        return _constant(True)

    def false(self, _: list[Token]) -> _Operand:
        return _constant(False)

    def compare(self, children: list[Any]) -> Test:
        left, operator, right = children
        left, right = _with_times(left, right)
        check = _COMPARISONS[str(operator)]
        return lambda record: _compared(left(record), right(record), check)

    def is_null(self, children: list[_Operand]) -> Test:
        return lambda record: children[0](record) is None

    def is_not_null(self, children: list[_Operand]) -> Test:
        return lambda record: children[0](record) is not None

    def between(self, children: list[_Operand]) -> Test:
        operand, low, high = children
        return _all([self.compare([operand, ">=", low]), self.compare([operand, "<=", high])])

    def not_between(self, children: list[_Operand]) -> Test:
        return _no(self.between(children))

    def is_in(self, children: list[_Operand]) -> Test:
        operand, *choices = children
        return _any([self.compare([operand, "=", choice]) for choice in choices])

    def is_not_in(self, children: list[_Operand]) -> Test:
        return _no(self.is_in(children))

    def search(self, children: list[Any]) -> Test:
        operand, how, wanted = children
        check = _SEARCHES[str(how).lower()]

        def test(record: Record) -> bool | None:
            text, part = operand(record), wanted(record)
            return check(text, part) if isinstance(text, str) and isinstance(part, str) else None

        return test

    def not_search(self, children: list[Any]) -> Test:
        return _no(self.search(children))

    def truth(self, children: list[_Operand]) -> Test:
        return lambda record: _as_boolean(children[0](record))

    def no(self, children: list[Test]) -> Test:
        return _no(children[0])

    def all(self, children: list[Test]) -> Test:
        return _all(children)

    def any(self, children: list[Test]) -> Test:
        return _any(children)


def _all(tests: list[Test]) -> Test:
    def test(record: Record) -> bool | None:
        found = [each(record) for each in tests]
        return False if False in found else None if None in found else True

    return test


def _any(tests: list[Test]) -> Test:
    def test(record: Record) -> bool | None:
        found = [each(record) for each in tests]
        return True if True in found else None if None in found else False

    return test


def _no(test: Test) -> Test:
    def opposite(record: Record) -> bool | None:
        found = test(record)
        return None if found is None else not found

    return opposite


def _constant(value: Value) -> _Operand:
    def constant(_: Record) -> Value:
        return value

    constant.value = value  # type: ignore[attr-defined]
    return constant


def _header(name: str) -> _Operand:
    return lambda record: record.text(name)


def _timestamp(record: Record) -> Value:
    return record.timestamp_ms


_FIELDS: Final[dict[str, _Operand]] = {
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": _timestamp,
    "key": lambda record: _text(record.key),
    "value": lambda record: _text(record.value),
}
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "contains": lambda text, part: part in text,
    "startswith": str.startswith,
    "endswith": str.endswith,
}


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _number(text: str) -> int | float:
    """Python refuses to read whole numbers of more than 4,300 digits; as a float these are infinite."""
    return int(text) if len(text) <= _DIGITS_MAX and re.fullmatch(r"[+-]?\d+", text) else float(text)


def _as_boolean(value: Value) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _compared(left: Value, right: Value, check: Callable[[Any, Any], bool]) -> bool | None:
    """Headers are texts: beside a number or a truth value they are read as one, if they are one."""
    if isinstance(left, bool) or isinstance(right, bool):
        left, right = _as_boolean(left), _as_boolean(right)
    elif isinstance(left, int | float) != isinstance(right, int | float):
        left, right = _as_number(left), _as_number(right)
    return None if left is None or right is None else check(left, right)


def _as_number(value: Value) -> int | float | None:
    if not isinstance(value, str):
        return value
    return _number(value) if _NUMBER_TEXT.fullmatch(value) else None


def _with_times(left: _Operand, right: _Operand) -> tuple[_Operand, _Operand]:
    """Beside `timestamp` a text is a time of ISO 8601."""
    if left is _timestamp:
        return left, _time(right)
    return (_time(left), right) if right is _timestamp else (left, right)


def _time(operand: _Operand) -> _Operand:
    text = getattr(operand, "value", None)
    if not isinstance(text, str):
        return operand
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise FilterError(f"{text!r} is not a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise FilterError(f"{text!r} has no zone: write Z at its end for UTC")
    return _constant(round(moment.timestamp() * 1000))
