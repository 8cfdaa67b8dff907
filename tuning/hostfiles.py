"""The one way to a host's files, below a root that can be a captured or a fake tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import TuningError


@dataclass(frozen=True)
class Reading:
    """A file's text without surrounding white space, or the reason why there is none."""

    text: str | None
    reason: str = ""


class HostFiles:
    """Reads and writes absolute host paths below `root`. Reading never raises: what cannot be read says why."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def locate(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def read(self, path: str) -> Reading:
        try:
            return Reading(self.locate(path).read_text(encoding="utf-8", errors="replace").strip())
        except FileNotFoundError:
            return Reading(None, f"{path} does not exist")
        except OSError as error:
            return Reading(None, f"{path} cannot be read: {error.strerror or error}")

    def read_verbatim(self, path: str) -> str | None:
        """The whole text of a configuration file, None when there is no such file.

        Raises TuningError for one that is there and cannot be read: it must not be taken for absent and overwritten.
        """
        try:
            return self.locate(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise TuningError(f"{path} cannot be read ({error}); make it readable or move it away") from error

    def names(self, path: str) -> list[str]:
        """Names in a directory in order; nothing when it is not there."""
        try:
            return sorted(entry.name for entry in self.locate(path).iterdir())
        except OSError:
            return []

    def link(self, path: str) -> str | None:
        try:
            return str(self.locate(path).readlink())
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return self.locate(path).exists()

    def write_setting(self, path: str, text: str) -> None:
        """Write a kernel setting in one write call, as /proc and /sys require. Raises OSError."""
        descriptor = os.open(self.locate(path), os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY)
        try:
            os.write(descriptor, (text + "\n").encode())
        finally:
            os.close(descriptor)

    def replace_file(self, path: str, text: str, mode: int) -> None:
        """Put a file in place whole and durable: after a crash there is the old one or the new one. Raises OSError."""
        target = self.locate(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def remove_file(self, path: str) -> None:
        """Remove a file for good. Raises OSError."""
        target = self.locate(path)
        target.unlink()
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
