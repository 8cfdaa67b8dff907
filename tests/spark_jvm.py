"""The environment of Spark's JVMs in tests: they start quickly, and leave nothing outside of a folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from highwater.common.spark_java import find_spark_java
from highwater.pipeline.drill.class_archive import jvm_options

_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
}
# spark-class starts a JVM that prints the command of the other one.
_LAUNCHER_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quick_start() -> str:
    """Options of a driver's JVM. Makes an archive of Spark's classes if there is none; that takes half a minute."""
    with tempfile.TemporaryDirectory() as scratch:
        return jvm_options(find_spark_java(os.environ, Path(scratch)), _SETTINGS, print)


def environment(options: str, scratch: Path) -> dict[str, str]:
    """Variables that the script spark-class reads, whoever starts it. scratch: for what a killed JVM leaves behind."""
    return {
        "SPARK_SUBMIT_OPTS": f"{options} -Djava.io.tmpdir={scratch}",
        "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS,
    }
