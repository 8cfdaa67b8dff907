"""What is depended on: a range in pyproject.toml, a version in constraints.txt, a reason in docs/dependencies.md."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PINS = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def requirements_of(extra: str) -> list[Requirement]:
    """But for those on extras of our own."""
    texts = PROJECT["optional-dependencies"][extra]
    return [found for text in texts if (found := Requirement(text)).name != PROJECT["name"]]


def requirements() -> list[Requirement]:
    core = [Requirement(text) for text in PROJECT["dependencies"]]
    return core + [found for extra in PROJECT["optional-dependencies"] for found in requirements_of(extra)]


def test_every_requirement_has_a_pin_within_its_range() -> None:
    pins = [(wanted, PINS.get(canonicalize_name(wanted.name))) for wanted in requirements()]
    unpinned = [f"{wanted}: {pin}" for wanted, pin in pins if not pin or not wanted.specifier.contains(pin)]
    assert unpinned == []


def test_every_requirement_has_its_reason() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/dependencies.md").read_text("utf-8"), re.MULTILINE)
    told = {canonicalize_name(name) for row in rows for name in re.split(r", | \(", row)}
    assert [wanted.name for wanted in requirements() if canonicalize_name(wanted.name) not in told] == []


def test_the_pipeline_brings_what_spark_asks_for_its_dataframes() -> None:
    """PySpark declares it as its extra `sql`, and raises PACKAGE_NOT_INSTALLED for what is missing when a sink runs."""
    asked = [Requirement(text) for text in metadata.requires("pyspark") or () if "extra ==" in text]
    of_sql = {found.name for found in asked if found.marker and found.marker.evaluate({"extra": "sql"})}
    assert "pandas" in of_sql
    assert of_sql <= {wanted.name for wanted in requirements_of("pipeline")}
