"""The clients that a process keeps: lent again, closed when idle, and not shared with a child."""

from __future__ import annotations

import os
from typing import Any

from highwater.pipeline.kafka.pool import Pool
from highwater.pipeline.kafka.settings import Settings
from tests.pipeline.kafka.fake_broker import cluster_of, fake_broker
from tests.waiting import wait_until


def answer_cluster(api: str, request: Any) -> Any:
    return cluster_of([], {})


def test_the_pool_lends_clients_again_and_closes_idle_ones() -> None:
    with fake_broker(answer_cluster) as broker:
        settings = Settings((("127.0.0.1", broker.port),))
        pool = Pool(idle_s=0.05)
        with pool.borrow(settings) as first, pool.borrow(settings) as second:
            assert first is not second
            first.cluster([])
        with pool.borrow(settings) as again:
            assert again in (first, second)
        wait_until(lambda: broker.closed == 1, "the idle connection is closed")
        pool.close()


def test_a_child_does_not_use_the_connections_of_its_parent() -> None:
    with fake_broker(answer_cluster) as broker:
        settings = Settings((("127.0.0.1", broker.port),))
        pool = Pool()
        with pool.borrow(settings) as parents:
            parents.cluster([])
        child = os.fork()
        if not child:
            pool.after_fork()
            with pool.borrow(settings) as own:
                os._exit(0 if own is not parents else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        with pool.borrow(settings) as still:
            assert still is parents
            still.cluster([])
        assert (broker.closed, broker.asked.count("api_versions")) == (0, 1)
        pool.close()
