"""OpenID providers that others wrote: npm's oidc-provider, which is certified, and oidc-provider-mock of PyPI."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, need, pip_install
from highwater.common.errors import UsageError
from tests.npm_packages import npm_packages

_OIDC_PROVIDER: Final = "oidc-provider"
"""package.json names its version: the last one that Debian 12's Node.js, 18, can run."""
OIDC_PROVIDER_MOCK: Final = "0.3.4"
SECRET: Final = "a secret: of %the client"  # noqa: S105 - of a provider that lives as long as a case
PLAIN_SECRET: Final = "of-the-loader"  # noqa: S105 - librdkafka does not encode others in Basic form (RFC 6749, 2.3.1)
PEOPLE: Final[Mapping[str, Sequence[str]]] = {
    "ada": ("kafka-admins", "staff"),
    "ben": ("kafka-readers",),
    "eve": ("staff",),
}
_HERE: Final = Path(__file__).parent
_PINNED_MOCK: Final = _HERE.parent.parent.parent / "requirements" / "oidc-provider-mock.txt"
_SCRIPT: Final = _HERE / "oidc_provider.mjs"
_READY_WITHIN_S: Final = 60


@contextmanager
def oidc_provider(port: int, redirect: str, log: Path) -> Iterator[str]:
    """Yields the issuer."""
    node = need("node", "nodejs", "runs oidc-provider")
    folder = npm_packages(_HERE, _OIDC_PROVIDER)
    with _running([node, str(_SCRIPT), str(port), redirect, SECRET], folder, log, port) as issuer:
        yield issuer


@contextmanager
def token_server(port: int, log: Path, life_s: int = 60) -> Iterator[str]:
    """Gives access tokens to the programs `loader` and `stranger`. Yields the issuer."""
    node = need("node", "nodejs", "runs oidc-provider")
    folder = npm_packages(_HERE, _OIDC_PROVIDER)
    script = _SCRIPT.with_name("token_server.mjs")
    with _running([node, str(script), str(port), PLAIN_SECRET, str(life_s)], folder, log, port) as issuer:
        yield issuer


@contextmanager
def oidc_provider_mock(port: int, redirect: str, log: Path, *options: str) -> Iterator[str]:
    """Any client with any secret may ask it. `redirect` is not looked at either."""
    folder = cached(
        f"oidc-provider-mock-{OIDC_PROVIDER_MOCK}", f"oidc-provider-mock {OIDC_PROVIDER_MOCK}: fetched", _fetch_mock
    )
    people = [
        f"--user-claims={json.dumps({'sub': name, 'preferred_username': name, 'groups': list(groups)})}"
        for name, groups in PEOPLE.items()
    ]
    command = [str(folder / "bin/oidc-provider-mock"), f"--port={port}", *people, *options]
    with _running(command, folder, log, port) as issuer:
        yield issuer


def _fetch_mock(directory: Path) -> None:
    # An environment knows its own folder, which `cached` renames: it is made again there without a copy of packages.
    packages = directory / "packages"
    packages.mkdir()
    pip_install(_PINNED_MOCK, packages)
    start = directory / "bin/oidc-provider-mock"
    start.parent.mkdir()
    start.write_text(
        f'#!/bin/sh\nPYTHONPATH="$(dirname "$0")/../packages" PYTHONWARNINGS=ignore '
        f'exec {sys.executable} -P -m oidc_provider_mock "$@"\n'
    )
    start.chmod(0o755)


@contextmanager
def _running(command: Sequence[str], folder: Path, log: Path, port: int) -> Iterator[str]:
    issuer = f"http://127.0.0.1:{port}"
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    try:
        ends_s = time.monotonic() + _READY_WITHIN_S
        while not _answers(issuer):
            if process.poll() is not None or time.monotonic() > ends_s:
                raise UsageError(f"{command[0]} does not serve: {log.read_text('utf-8')[-300:]}")
            time.sleep(0.1)
        yield issuer
    finally:
        process.kill()
        process.wait()


def _answers(issuer: str) -> bool:
    try:
        with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=60) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
