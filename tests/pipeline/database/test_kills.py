"""kill -9 of the driver and of the database server at each named place of a write: each row is there once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from highwater.pipeline.crash_points import ARMED, DIRECTORY_VARIABLE, REACHED, CrashPoint
from tests.pipeline.database.tables import Database, batch, ten, write
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
DEADLINE_S = 180
PLACES = [
    CrashPoint.SINK_BEGINS,
    CrashPoint.SINK_BEGUN,
    CrashPoint.SINK_WRITING,
    CrashPoint.SINK_WRITTEN,
    CrashPoint.SINK_BEFORE_COMMIT,
    CrashPoint.SINK_COMMITTED,
]


def start(database: Database, number: int, key: list[str], crashes: Path | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ, **({DIRECTORY_VARIABLE: str(crashes)} if crashes else {})}
    command = [sys.executable, "-m", "tests.pipeline.database.driver", database.url, str(number), *key]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def answer(driver: subprocess.Popen[str]) -> str:
    return driver.communicate(timeout=180)[0].strip()


def replay(database: Database, number: int, key: list[str]) -> str:
    """The driver's answer, without a process of its own that nobody kills."""
    return write(database.writer(key=key), batch(number), ten(number)).value


def reached(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{REACHED}*"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("key", [[], ["id"]], ids=["append", "upsert"])
def test_a_driver_that_is_killed(database: Database, tmp_path: Path, key: list[str]) -> None:
    for number, place in enumerate(PLACES):
        crashes = tmp_path / place.value
        crashes.mkdir()
        (crashes / f"{place.value}{ARMED}").touch()
        driver = start(database, number, key, crashes)
        wait_until(lambda crashes=crashes: bool(reached(crashes)), place.value, DEADLINE_S)  # type: ignore[misc]
        driver.kill()
        driver.wait()
        expected = "skip" if place is CrashPoint.SINK_COMMITTED else "write"
        assert replay(database, number, key) == expected
    assert database.rows() == sorted((row for number in range(len(PLACES)) for row in ten(number)), key=repr)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("key", [[], ["id"]], ids=["append", "upsert"])
def test_a_server_that_is_killed(database: Database, tmp_path: Path, key: list[str]) -> None:
    assert database.server is not None
    for number, place in enumerate(PLACES):
        crashes = tmp_path / place.value
        crashes.mkdir()
        (crashes / f"{place.value}{ARMED}").touch()
        driver = start(database, number, key, crashes)
        wait_until(lambda crashes=crashes: bool(reached(crashes)), place.value, DEADLINE_S)  # type: ignore[misc]
        database.server.kill()
        reached(crashes)[0].unlink()
        said = answer(driver)
        database.server.start()
        if place is CrashPoint.SINK_COMMITTED:
            assert said == "write"
            assert replay(database, number, key) == "skip"
        else:
            assert said.startswith(database.address.shown) or "was lost" in said
            assert "\n" not in said
            assert replay(database, number, key) == "write"
    assert database.rows() == sorted((row for number in range(len(PLACES)) for row in ten(number)), key=repr)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_server_that_is_killed_in_the_commit(database: Database, tmp_path: Path) -> None:
    """Sometimes before it is carried out, sometimes after: the replay finds out."""
    assert database.server is not None
    rounds = 8
    for number in range(rounds):
        crashes = tmp_path / str(number)
        crashes.mkdir()
        (crashes / f"{CrashPoint.SINK_BEFORE_COMMIT.value}{ARMED}").touch()
        driver = start(database, number, [], crashes)
        wait_until(lambda crashes=crashes: bool(reached(crashes)), "the commit", DEADLINE_S)  # type: ignore[misc]
        reached(crashes)[0].unlink()
        time.sleep(number * 0.003)  # the driver looks for its release every 10 ms
        database.server.kill()
        answer(driver)
        database.server.start()
        assert replay(database, number, []) in ("write", "skip")
    assert database.rows() == sorted((row for number in range(rounds) for row in ten(number)), key=repr)
