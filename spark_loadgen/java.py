"""Finds Java for the load generator: a Java that is missing is a fault of the set-up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from highwater.common.errors import MissingDependencyError
from highwater.common.spark_java import Java, find_spark_java
from highwater.spark_loadgen.model import LoadSetupError


def find_java(environment: Mapping[str, str], scratch: Path) -> Java:
    """`find_spark_java`; raises LoadSetupError when no Java is new enough."""
    try:
        return find_spark_java(environment, scratch)
    except MissingDependencyError as error:
        raise LoadSetupError(str(error)) from None
