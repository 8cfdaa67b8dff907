"""A mapping in the monitor's YAML file: values come checked, errors with file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NoReturn

from highwater.common.nearest import did_you_mean
from highwater.common.quantities import DURATION, SIZE, Quantity
from highwater.common.secret_names import has_secret_in_url, is_secret_header, is_secret_name
from highwater.common.units import NANOSECONDS
from highwater.common.yaml_nodes import Document, Location, dotted
from highwater.monitor.errors import SettingsError
from highwater.monitor.listen import Listen, listen_of
from highwater.monitor.zookeeper.address import ZooKeeperAddress, address_of

_VARIABLE: Final = re.compile(r"\$\{([^{}]*)\}")


class ConfigPart:
    """A mapping in the file. All methods raise SettingsError that begins with file, line and key."""

    def __init__(
        self, document: Document, environment: Mapping[str, str], folder: Path, location: Location = ()
    ) -> None:
        self._document = document
        self._environment = environment
        self._folder = folder
        self._location = location
        value: Any = document.data
        for key in location:
            value = value[key]
        if not isinstance(value, dict):
            self.fail("", "is not a mapping of keys to values" if value is not None else "has no value")
        self._value: dict[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def fail(self, key: str, what: str) -> NoReturn:
        location = (*self._location, key) if key else self._location
        raise SettingsError(f"{self._document.origin(location)}: {dotted(location)}: {what}")

    def fail_with(self, error: SettingsError) -> NoReturn:
        raise SettingsError(f"{self._document.origin(self._location)}: {error}") from None

    def check_keys(self, known: Iterable[str]) -> None:
        known = tuple(known)
        for key in self._value:
            if key not in known:
                self.fail(key, f"unknown key{did_you_mean(key, known) or '; known here: ' + ', '.join(known)}")

    def part(self, key: str) -> ConfigPart | None:
        return self._inner(key) if key in self._value else None

    def text(self, key: str, default: str = "") -> str:
        """Return the value as text; `${NAME}` stands for a variable of the environment."""
        if key not in self._value:
            return default
        value = self._value[key]
        if isinstance(value, dict | list):
            self.fail(key, "is not text")
        if value is None or value == "":
            self.fail(key, "has no value")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if has_secret_in_url(text):
            self.fail(key, "a password does not belong into a file: write ${NAME}, and set NAME in the environment")
        return _VARIABLE.sub(lambda match: self._variable(key, match[1]), text)

    def texts(self, key: str) -> dict[str, str]:
        """The mapping under `key`, such as client properties; a secret in it is an error."""
        inner = self.part(key)
        if inner is None:
            return {}
        for name, value in inner._value.items():
            if is_secret_name(name) and "${" not in str(value):
                inner.fail(name, "a secret does not belong into a file: write ${NAME}, and set NAME in the environment")
        return {name: inner.text(name) for name in inner._value}

    def secret(self, key: str) -> str:
        """A text that must come from the environment."""
        if key in self and "${" not in str(self._value[key]):
            self.fail(key, "a secret does not belong into a file: write ${NAME}, and set NAME in the environment")
        return self.text(key)

    def headers(self) -> dict[str, str]:
        """All keys as texts; what a header such as Authorization holds must come from the environment."""
        return {name: self.secret(name) if is_secret_header(name) else self.text(name) for name in self._value}

    def parts(self, key: str) -> dict[str, ConfigPart]:
        """The mappings under `key`, by their names."""
        outer = self.part(key)
        return {} if outer is None else {str(name): outer._inner(name) for name in outer._value}

    def _inner(self, key: Any) -> ConfigPart:
        return ConfigPart(self._document, self._environment, self._folder, (*self._location, key))

    def several(self, key: str) -> tuple[str, ...]:
        value = self._value.get(key, [])
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fail(key, "is not a list of texts")
        return tuple(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(each, int) and not isinstance(each, bool) for each in value
        ):
            self.fail(key, "is not a list of whole numbers, such as [1, 2]")
        return tuple(value)

    def path(self, key: str) -> Path | None:
        return self._folder / Path(self.text(key)).expanduser() if key in self else None

    def paths(self, key: str) -> tuple[Path, ...]:
        return tuple(self._folder / Path(each).expanduser() for each in self.several(key))

    def switch(self, key: str, default: bool) -> bool:
        value = self._value.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"{value!r} is neither true nor false")
        return value

    def seconds(self, key: str, default: float) -> float:
        amount = self._amount(key, DURATION)
        return default if amount is None else float(amount / NANOSECONDS["s"])

    def size_bytes(self, key: str, default: int) -> int:
        amount = self._amount(key, SIZE)
        return default if amount is None else int(amount)

    def listen(self, key: str) -> Listen | None:
        if key not in self:
            return None
        try:
            return listen_of(self.text(key))
        except SettingsError as error:
            self.fail(key, str(error))

    def zookeeper(self, key: str) -> ZooKeeperAddress | None:
        if key not in self:
            return None
        try:
            return address_of(self.text(key))
        except SettingsError as error:
            self.fail(key, str(error))

    def _amount(self, key: str, quantity: Quantity) -> Decimal | None:
        if key not in self:
            return None
        try:
            return quantity.above_zero(self.text(key))
        except ValueError as error:
            self.fail(key, str(error))

    def _variable(self, key: str, name: str) -> str:
        if name not in self._environment:
            self.fail(key, f"the environment variable {name} is not set")
        return self._environment[name]
