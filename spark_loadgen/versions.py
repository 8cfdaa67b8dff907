"""Versions of what every task runs on, as this host has them."""

from __future__ import annotations

import importlib
import sys


def task_versions() -> dict[str, str]:
    """By name. Imported here: a launcher's module is read by commands that start no load."""
    confluent_kafka = importlib.import_module("confluent_kafka")
    return {
        "python": sys.version.split()[0],
        "confluent-kafka": str(confluent_kafka.__version__),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "numpy": str(importlib.import_module("numpy").__version__),
    }
