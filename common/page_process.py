"""The page of a run that goes on, as the run sees it: a child that serves it at the lowest priority."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import webbrowser
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .child_process import HIGHWATER, await_end
from .errors import UsageError
from .extras import how_to_install
from .listen_address import LOOPBACK, ListenAddress, listening_at

_VARIABLE: Final = "HIGHWATER_WATCH"
# It writes the report of the run, at the lowest priority, and lets open pages fetch it.
_END_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Where a page is served: a socket on loopback, and the token in its path, which nobody guesses."""

    listening: socket.socket
    token: str

    @classmethod
    def free(cls, port: int, option: str) -> PageAddress:
        """port: 0 for a free one. Raises UsageError that names `option`."""
        return cls(listening_at(ListenAddress(LOOPBACK, port), option), secrets.token_urlsafe(12))

    @classmethod
    def inherited(cls) -> PageAddress | None:
        """The address that a run has given to this process, its child; None without one.

        It comes in the environment, which no other user of this host can read, as arguments can be.
        """
        descriptor, _, token = os.environ.pop(_VARIABLE, "").partition(" ")
        return cls(socket.socket(fileno=int(descriptor)), token) if token else None

    def variable(self) -> dict[str, str]:
        return {_VARIABLE: f"{self.listening.fileno()} {self.token}"}

    @property
    def link(self) -> str:
        return f"http://{LOOPBACK}:{self._port}/{self.token}/"

    @property
    def notice(self) -> str:
        """The line with the link, and the way to it for somebody who came by ssh."""
        line = f"live page: {self.link}"
        if "SSH_CONNECTION" not in os.environ:
            return line
        return f"{line} (from your host: ssh -L {self._port}:{LOOPBACK}:{self._port} {socket.gethostname()})"

    @property
    def _port(self) -> int:
        port: int = self.listening.getsockname()[1]
        return port


class PageProcess:
    """Listens at once, so that the link can be printed, and serves once the run has a directory."""

    def __init__(self, port: int) -> None:
        """port: 0 for a free one. Raises UsageError."""
        if find_spec("jinja2") is None:
            raise UsageError(f"--watch needs jinja2: {how_to_install('bench')}")
        self._address = PageAddress.free(port, "--watch-port")
        self._process: subprocess.Popen[bytes] | None = None
        self.notice = self._address.notice

    @property
    def process_ids(self) -> tuple[int, ...]:
        return () if self._process is None else (self._process.pid,)

    def start(self, directory: Path) -> None:
        """Serve what the run writes there; open the page where there is a screen."""
        self._process = subprocess.Popen(
            [*HIGHWATER, "watch", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self._address.variable()},
            pass_fds=[self._address.listening.fileno()],
            # A Ctrl-C at the terminal is for the run, whose end the page still shows.
            start_new_session=True,
        )
        if sys.stderr.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(self._address.link)
        self._address.listening.close()

    def finish(self) -> None:
        """Wait until open pages have seen the end. To be called after the run's live figures were finished."""
        self._address.listening.close()
        if self._process is not None:
            await_end(self._process, _END_WITHIN_S)
