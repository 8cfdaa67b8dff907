"""The reader of facts: a host's files, and the reasons of facts that cannot be read."""

from __future__ import annotations

import re
from typing import Final

from ..hostfiles import HostFiles

# NR_CPUS of the largest configuration of the kernel is 8192.
_MOST_CPUS: Final = 65_536


class Reader:
    def __init__(self, files: HostFiles) -> None:
        self.files = files
        self.unknown: dict[str, str] = {}
        """Fact to the reason why it is unknown."""

    def required(self, fact: str, path: str) -> str | None:
        """A file whose absence leaves `fact` unknown."""
        reading = self.files.read(path)
        if reading.text is None:
            self.unknown[fact] = reading.reason
        return reading.text

    def optional(self, path: str) -> str | None:
        return self.files.read(path).text

    def number(self, path: str) -> int | None:
        """The whole number that an optional file holds."""
        return parse_whole(self.files.read(path).text or "")

    def match(self, fact: str, path: str, pattern: str) -> str | None:
        """The first group of the first match in a required file, without surrounding white space."""
        text = self.required(fact, path)
        if text is None:
            return None
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            self.unknown[fact] = f"{path} does not tell"
            return None
        return match[1].strip()

    def present(self, directory: str, names: tuple[str, ...]) -> dict[str, str]:
        """Those of the named files that can be read, by name."""
        texts = ((name, self.files.read(f"{directory}/{name}").text) for name in names)
        return {name: text for name, text in texts if text is not None}


def parse_whole(text: str) -> int | None:
    """A whole number as the kernel writes one: decimal digits, with a sign or without, of 64 bits; else None."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None


def value_of(text: str) -> str:
    """The value in a file of settings: the chosen word where the file lists all, else its text with single blanks."""
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if chosen else " ".join(words)


def parse_cpu_list(text: str) -> tuple[int, ...] | None:
    """The CPUs of a list such as `0-3,8`; None when it is no such list. An empty text is no CPU."""
    cpus: list[int] = []
    for part in text.split(",") if text else []:
        first, dash, last = part.strip().partition("-")
        low, high = parse_whole(first), parse_whole(last if dash else first)
        if low is None or high is None or low < 0 or high >= _MOST_CPUS:
            return None
        cpus.extend(range(low, high + 1))
    return tuple(cpus)


def parse_kibibytes(text: str, key: str) -> int | None:
    """Bytes of a line such as `MemTotal:  1024 kB`, anywhere in `text`."""
    match = re.search(rf"\b{re.escape(key)}:\s+([0-9]{{1,20}}) kB", text)
    return int(match[1]) * 1024 if match else None


def number_in(name: str) -> int:
    """The first number in a name, so that rx-10 comes after rx-9."""
    match = re.search(r"[0-9]{1,9}", name)
    return int(match[0]) if match else 0
