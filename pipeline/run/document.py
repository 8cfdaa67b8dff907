"""Reads the YAML of a pipeline with the line of every key, and gives its parts out checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from highwater.common.nearest import did_you_mean
from highwater.common.secret_names import has_secret_in_url, is_secret_name
from highwater.common.yaml_nodes import Document, DocumentError, Location, dotted, parse, read_text
from highwater.pipeline.errors import SettingsError

_VARIABLE: Final = re.compile(r"\$(\$?)\{([^{}]*)\}")
_FROM_ENVIRONMENT: Final = "a secret does not belong into a file: write ${NAME}, and set NAME in the environment"


def read_document(path: Path) -> Document:
    """Read a YAML mapping. Raises SettingsError with file and line."""
    try:
        text = read_text(path)
    except DocumentError as error:
        raise SettingsError(str(error)) from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Parse a YAML mapping. Raises SettingsError with file and line."""
    try:
        return parse(yaml, text, name, "name: orders")
    except DocumentError as error:
        raise SettingsError(str(error)) from None


class Part:
    """A mapping in the document. All methods raise SettingsError that begins with file, line and key."""

    def __init__(self, document: Document, environment: Mapping[str, str], location: Location = ()) -> None:
        self._document = document
        self._environment = environment
        self._location = location
        value: Any = document.data
        for key in location:
            value = value[key]
        if not isinstance(value, dict):
            self.fail(None, "is not a mapping of keys to values" if value is not None else "has no value")
        self._value: dict[str, Any] = value

    @property
    def origin(self) -> str:
        return self._document.origin(self._location)

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def keys(self) -> list[str]:
        return list(self._value)

    def fail(self, key: str | None, what: str) -> NoReturn:
        location = self._location if key is None else (*self._location, key)
        name = dotted(location)
        raise SettingsError(f"{self._document.origin(location)}: {name + ': ' if name else ''}{what}")

    def check_keys(self, known: Iterable[str]) -> None:
        known = tuple(known)
        for key in self._value:
            if key not in known:
                self.fail(key, f"unknown key{did_you_mean(key, known) or '; known here: ' + ', '.join(known)}")

    def part(self, key: str) -> Part:
        """The mapping under `key`."""
        if key not in self._value:
            self.fail(key, "is missing")
        return Part(self._document, self._environment, (*self._location, key))

    def part_or_none(self, key: str) -> Part | None:
        return self.part(key) if key in self._value else None

    def parts(self, key: str) -> dict[str, Part]:
        """The mappings under `key` by their names; empty without `key`."""
        outer = self.part_or_none(key)
        return {} if outer is None else {name: outer.part(name) for name in outer.keys()}  # noqa: SIM118 - not a dict

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
        """The text of `key`, with values of the environment for `${NAME}`."""
        if key not in self._value and default is not None:
            return default
        text = self.raw_text(key)
        if has_secret_in_url(text):
            self.fail(key, _FROM_ENVIRONMENT)
        return self._filled(key, text)

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        text = self.text(key, default)
        if text not in choices:
            self.fail(key, f"{text!r} is none of {', '.join(choices)}")
        return text

    def count(self, key: str, default: int) -> int:
        text = self.text(key, str(default))
        if not text.isdecimal() or not int(text):
            self.fail(key, f"{text!r} is no positive whole number")
        return int(text)

    def texts(self, key: str) -> dict[str, str]:
        """The mapping under `key`, such as options, as texts; empty without `key`. A secret in it is an error."""
        if key not in self._value:
            return {}
        inner = self.part(key)
        for name in inner._value:
            inner._refuse_secret(name)
        return {name: inner.text(name) for name in inner._value}

    def _refuse_secret(self, key: str) -> None:
        text = self.raw_text(key)
        if is_secret_name(key) and "${" not in text:
            self.fail(key, _FROM_ENVIRONMENT)

    def _filled(self, key: str, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            escaped, name = match[1], match[2]
            if escaped:
                return match[0][1:]
            if name not in self._environment:
                self.fail(key, f"the environment variable {name} is not set")
            return self._environment[name]

        return _VARIABLE.sub(value_of, text)
