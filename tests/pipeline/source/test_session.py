"""What `register` looks for and gives to a session: modules, and the package for executors elsewhere."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.source import session as session_module
from highwater.pipeline.source.session import register


class ClusterSession:
    """A session whose executors are on other hosts."""

    def __init__(self) -> None:
        self.sent: list[Path] = []
        self.sparkContext = SimpleNamespace(
            master="spark://elsewhere:7077",
            applicationId=uuid4().hex,
            pythonExec=sys.executable,
            addPyFile=lambda path: self.sent.append(Path(path)),
        )
        self.conf = SimpleNamespace(set=lambda *_: None)
        self.dataSource = SimpleNamespace(register=lambda _: None)
        self.streams = SimpleNamespace(addListener=lambda _: None)


def test_the_package_is_there_until_the_driver_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark serves the file itself: executors fetch it with their first task, and those that join later do so then."""
    at_end: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = []
    monkeypatch.setattr(
        session_module,
        "atexit",
        SimpleNamespace(register=lambda call, *given, **named: at_end.append((call, given, named))),
    )
    monkeypatch.setattr(session_module, "_check_executors", lambda *_: None)
    spark: Any = ClusterSession()
    for _ in range(2):  # Spark would refuse the file of a second call
        register(spark)
    (archive,) = spark.sent
    try:
        with zipfile.ZipFile(archive) as package:
            assert "highwater/pipeline/source/session.py" in package.namelist()
    finally:
        for call, given, named in at_end:
            call(*given, **named)
    assert not archive.parent.exists()


@pytest.mark.parametrize("chosen", ["", "/opt/other/bin/python"])
def test_a_local_session_runs_the_python_of_the_driver_unless_another_is_chosen(
    monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    spark: Any = ClusterSession()
    spark.sparkContext.master = "local[*]"
    spark.sparkContext.pythonExec = chosen or "python3"
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if chosen:
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
        with pytest.raises(
            SettingsError, match=rf"cannot import highwater; set PYSPARK_PYTHON={sys.executable} before"
        ):
            register(spark)
        return
    register(spark)
    assert spark.sparkContext.pythonExec == sys.executable


def test_another_python_without_a_library_is_named_with_the_way_out(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho crc32c\n")
    other.chmod(0o755)
    spark: Any = ClusterSession()
    spark.sparkContext.pythonExec = str(other)
    way_out = rf"has no crc32c; install it there: .*, or set PYSPARK_PYTHON={sys.executable} before the session starts$"
    with pytest.raises(SettingsError, match=way_out):
        register(spark)


def test_modules_of_the_user_are_looked_for() -> None:
    spark: Any = ClusterSession()
    with pytest.raises(SettingsError, match=r"has no no_such\.module; install it there: python -m pip install no_such"):
        register(spark, imports=["json", "google.protobuf", "no_such.module"])
    with pytest.raises(SettingsError, match=r"^imports is a list of modules: write imports=\['google\.protobuf'\]$"):
        register(spark, imports="google.protobuf")
    assert spark.sent == []
