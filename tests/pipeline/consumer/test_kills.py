"""Members of a group that are killed at any moment, with rebalances and a killed database: each record once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.database.tables import Database
from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
PARTITIONS, RECORDS, KILLS, MEMBERS = 4, 4000, 4, 3


@pytest.mark.timeout(500)
def test_kills_and_rebalances(topics: Topics, database: Database, tmp_path: Path) -> None:
    topic = f"kills-{database.kind}"
    topics.create(topic, PARTITIONS)
    database.sql("create table seen (topic_partition integer, topic_offset integer)")
    stop_file = tmp_path / "stop"
    source = random.Random(7)

    def start() -> subprocess.Popen[bytes]:
        member = [sys.executable, "-m", "tests.pipeline.consumer.member"]
        log = (tmp_path / "members.log").open("ab")
        return subprocess.Popen(
            [*member, topics.address, topic, database.url, str(stop_file)], stdout=log, stderr=log, env=os.environ
        )

    members = [start() for _ in range(MEMBERS)]
    try:
        for number in range(KILLS):
            for partition in range(PARTITIONS):
                topics.produce(topic, RECORDS // KILLS // PARTITIONS, partition=partition)
            wait_until(has_rows(database, 1 + number * RECORDS // KILLS // 2), "progress", within_s=120)
            time.sleep(source.random() * 0.3)  # so that kills come at any moment
            victim = source.randrange(MEMBERS)
            if number % 3 == 1:  # the old owner wakes up after another one has its partitions
                members[victim].send_signal(signal.SIGSTOP)
                time.sleep(7)
                members[victim].send_signal(signal.SIGCONT)
            else:
                members[victim].kill()
                members[victim].wait()
                members[victim] = start()
            if number == KILLS // 2 and database.server is not None:
                database.server.kill()
                database.server.start()
        wait_until(has_rows(database, RECORDS), "all records", within_s=200)
        stop_file.touch()
        for member in members:
            assert member.wait(180) == 0, (tmp_path / "members.log").read_text("utf-8")[-3000:]
    finally:
        for member in members:
            if member.poll() is None:
                member.kill()
                member.wait()
    rows = sorted((int(a), int(b)) for a, b in database.sql("select * from seen"))
    each = RECORDS // PARTITIONS
    assert rows == [(partition, offset) for partition in range(PARTITIONS) for offset in range(each)]


def has_rows(database: Database, enough: int) -> Callable[[], bool]:
    def has() -> bool:
        try:
            return int(database.sql("select count(*) from seen")[0][0]) >= enough
        except database.dialect.errors:  # a server that was killed
            return False

    return has
