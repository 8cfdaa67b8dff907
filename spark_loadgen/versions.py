"""Versions of the packages on this host that a task runs on."""

from __future__ import annotations

import importlib
import sys


def task_versions() -> dict[str, str]:
    """Package name -> version. Imports inside, because commands that start no load import the launchers' modules."""
    confluent_kafka = importlib.import_module("confluent_kafka")
    return {
        "python": sys.version.split()[0],
        "confluent-kafka": str(confluent_kafka.__version__),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "numpy": str(importlib.import_module("numpy").__version__),
    }
