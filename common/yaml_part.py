"""A mapping in a YAML file: its values come checked, errors with file, line and key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from .errors import UsageError
from .nearest import did_you_mean
from .quantities import DURATION, SIZE
from .secret_names import has_secret_in_url, is_secret_header, is_secret_name
from .units import NANOSECONDS
from .yaml_nodes import Document, Location, dotted

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_VARIABLE: Final = re.compile(r"\$(\$?)\{([^{}]*)\}")
_FROM_ENVIRONMENT: Final = "a secret does not belong into a file: write ${NAME}, and set NAME in the environment"
_Value = TypeVar("_Value")


class Part:
    """All methods raise UsageError that begins with file, line and key.

    In texts `${NAME}` stands for a variable of the environment, and `$${` for `${`. folder: where paths begin.
    """

    def __init__(
        self, document: Document, environment: Mapping[str, str], folder: Path, location: Location = ()
    ) -> None:
        self._document = document
        self._environment = environment
        self.folder = folder
        self._location = location
        value: Any = document.data
        for key in location:
            value = value[key] if isinstance(key, int) else value.get(key, {})
        if not isinstance(value, dict):
            self.fail(None, "is not a mapping of keys to values" if value is not None else "has no value")
        self._value: dict[str, Any] = value

    @property
    def origin(self) -> str:
        return self._document.origin(self._location)

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def fail(self, key: str | None, what: str) -> NoReturn:
        location = self._location if key is None else (*self._location, key)
        name = dotted(location)
        raise UsageError(f"{self._document.origin(location)}: {name + ': ' if name else ''}{what}") from None

    def check_keys(self, known: Iterable[str], others: str = "") -> None:
        """others: where keys that are not known may belong, for people."""
        known = tuple(known)
        for key in self._value:
            if key not in known:
                self.fail(key, f"unknown key{did_you_mean(key, known) or '; known here: ' + ', '.join(known) + others}")

    def part(self, key: str) -> Part:
        """The mapping under `key`; an empty one if there is none."""
        return Part(self._document, self._environment, self.folder, (*self._location, key))

    def parts(self, key: str) -> dict[str, Part]:
        """The mappings under `key` by their names."""
        outer = self.part(key)
        return {name: outer.part(name) for name in outer._value}

    def items(self, key: str) -> list[Part]:
        """The mappings in the list under `key`."""
        value = self._value.get(key, [])
        if not isinstance(value, list):
            self.fail(key, "is not a list: each item begins with '- '")
        return [
            Part(self._document, self._environment, self.folder, (*self._location, key, at)) for at in range(len(value))
        ]

    def raw_text(self, key: str) -> str:
        """The text as it is written, without values of the environment."""
        if key not in self._value:
            self.fail(key, "is missing")
        value = self._value[key]
        if value is None or (isinstance(value, str) and not value.strip()):
            self.fail(key, "has no value")
        if isinstance(value, dict | list):
            self.fail(key, "is not text")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def text(self, key: str, default: str | None = None) -> str:
        if key not in self._value and default is not None:
            return default
        text = self.raw_text(key)
        if has_secret_in_url(text):
            self.fail(key, _FROM_ENVIRONMENT)
        return _VARIABLE.sub(lambda match: match[0][1:] if match[1] else self._variable(key, match[2]), text)

    def secret(self, key: str) -> str:
        """A text that must come from the environment; empty without `key`."""
        if key not in self._value:
            return ""
        if not any(not match[1] for match in _VARIABLE.finditer(self.raw_text(key))):
            self.fail(key, _FROM_ENVIRONMENT)
        return self.text(key)

    def texts(self, key: str, is_secret: Callable[[str], bool] = is_secret_name) -> dict[str, str]:
        """The mapping under `key`, such as options, as texts; those with secret names come from the environment."""
        inner = self.part(key)
        return {name: inner.secret(name) if is_secret(name) else inner.text(name) for name in inner._value}

    def headers(self, key: str) -> dict[str, str]:
        """Texts of which those of a login, such as Authorization, come from the environment."""
        return self.texts(key, is_secret_header)

    def read(self, key: str, parse: Callable[[str], _Value]) -> _Value | None:
        """What `parse` makes of the text, which may raise UsageError or ValueError; None without `key`."""
        if key not in self._value:
            return None
        try:
            return parse(self.text(key))
        except (UsageError, ValueError) as error:
            self.fail(key, str(error))

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        text = self.text(key, default)
        if text not in (choices := tuple(choices)):
            self.fail(key, f"{text!r} is none of {', '.join(choices)}")
        return text

    def count(self, key: str, default: int) -> int:
        text = self.text(key, str(default))
        if not text.isdecimal() or not int(text):
            self.fail(key, f"{text!r} is not a positive whole number")
        return int(text)

    def integer(self, key: str, least: int, default: int | None = None) -> int:
        """A whole number, which must be there if it has no default."""
        text = self.text(key, None if default is None else str(default))
        if not _INTEGER.fullmatch(text) or int(text) < least:
            self.fail(key, f"{text!r} is not a whole number of at least {least}")
        return int(text)

    def switch(self, key: str, default: bool) -> bool:
        value = self._value.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"{value!r} is neither true nor false")
        return value

    def seconds(self, key: str, default: float) -> float:
        amount = self.read(key, DURATION.above_zero)
        return default if amount is None else float(amount / NANOSECONDS["s"])

    def size_bytes(self, key: str, default: int) -> int:
        amount = self.read(key, SIZE.above_zero)
        return default if amount is None else int(amount)

    def path(self, key: str) -> Path | None:
        return self.read(key, lambda text: self.folder / Path(text).expanduser())

    def paths(self, key: str) -> tuple[Path, ...]:
        return tuple(self.folder / Path(each).expanduser() for each in self.several(key))

    def several(self, key: str) -> tuple[str, ...]:
        value = self._value.get(key, [])
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fail(key, "is not a list of texts")
        return tuple(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            self.fail(key, "is not a list of whole numbers, such as [1, 2]")
        return tuple(value)

    def _variable(self, key: str, name: str) -> str:
        if name not in self._environment:
            self.fail(key, f"the environment variable {name} is not set")
        return self._environment[name]
