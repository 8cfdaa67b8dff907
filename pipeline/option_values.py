"""Values of options by their proper names: whole numbers, flags, choices, times. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from highwater.common.quantities import DURATION
from highwater.common.units import NANOSECONDS
from highwater.pipeline.errors import SettingsError

Value = TypeVar("Value")


def spelled(options: Mapping[str, str], proper: Mapping[str, str]) -> dict[str, str]:
    """The options under the names of `proper` (keys: their lower case); unknown names stay.

    Raises SettingsError for a name that is there in two spellings.
    """
    found: dict[str, str] = {}
    for name, value in options.items():
        known = proper.get(name.lower(), name)
        if known in found:
            raise SettingsError(f"option {known} is there twice, also as {name}: keep one")
        found[known] = value
    return found


class OptionValues:
    """Reads values by the proper names of options, and names the option in errors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def text(self, name: str, default: str = "") -> str:
        return self._options.get(name.lower(), default).strip()

    def parsed(self, name: str, read: Callable[[str], Value]) -> Value:
        try:
            return read(self.text(name))
        except SettingsError as error:
            raise SettingsError(f"{name}: {error}") from None

    def count(self, name: str, most: int | None = None) -> int | None:
        """None if it is not given."""
        if name not in self:
            return None
        text = self.text(name)
        if not text.isdecimal() or not 0 < int(text) <= (int(text) if most is None else most):
            wanted = "positive whole number" if most is None else f"whole number from 1 to {most}"
            raise SettingsError(f"{name}={text} is not a {wanted}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise SettingsError(f"{name}={text} is neither true nor false")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The first choice is the default."""
        text = self.text(name, choices[0]).lower()
        if text not in choices:
            raise SettingsError(f"{name}={text} is none of {', '.join(choices)}")
        return text

    def duration_ms(self, name: str, default: int) -> int:
        if name not in self:
            return default
        text = self.text(name)
        duration_ns = DURATION.amount(f"{text}ms" if text.isdecimal() else text)
        if duration_ns is None or duration_ns % NANOSECONDS["ms"]:
            raise SettingsError(f"{name}={text} is not a time in whole ms; write it as 500ms, 30s, 15m, 1h or 1d")
        return int(duration_ns // NANOSECONDS["ms"])
