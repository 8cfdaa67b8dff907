"""What a broker warns of when it joins its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from highwater.broker.clock import SystemClock
from highwater.broker.cluster.zookeeper import Create, Set
from highwater.broker.server.loop_scheduler import LoopScheduler
from highwater.broker.server.membership import Membership
from highwater.broker.settings.config import BrokerConfig, Setting
from tests.broker.running_tree import RunningTree, running_tree
from tests.broker.zookeeper_clients import RealClient, ask

DEADLINE_S = 60
ACL = '{"version":1,"acls":[{"principal":"User:ANONYMOUS","permissionType":"Allow","operation":"%s","host":"*"}]}'
NO_RECORDS = (
    "brokers come to each other as User:ANONYMOUS, who may not do CLUSTER_ACTION on the cluster: followers will get no "
    "records; add User:ANONYMOUS to super.users of every broker"
)
NO_TOPICS = (
    "brokers come to each other as User:ANONYMOUS, who may not do CREATE on the cluster: __consumer_offsets, and "
    "topics that are created on first use, cannot be made; add User:ANONYMOUS to super.users of every broker"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTree]:
    with running_tree(tmp_path_factory.mktemp("tree") / "metadata") as running:
        yield running


@pytest.mark.parametrize(
    ("super_users", "allowed", "warnings"),
    [
        ("User:admin", "", [NO_RECORDS, NO_TOPICS]),
        ("User:admin", "ClusterAction", [NO_TOPICS]),
        ("User:admin", "Create", [NO_RECORDS]),
        ("User:admin", "All", []),
        ("User:admin;User:ANONYMOUS", "", []),
    ],
)
def test_brokers_that_may_not_do_what_they_need_are_told(
    super_users: str,
    allowed: str,
    warnings: list[str],
    tree: RunningTree,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chroot = f"/{tmp_path.name}"
    if allowed:
        client = RealClient(tree.connect, chroot)
        paths = ("/kafka-acl", "/kafka-acl/Cluster", "/kafka-acl/Cluster/kafka-cluster")
        ask(client, *(Create(path) for path in paths), Set(paths[-1], (ACL % allowed).encode()))
        client.close()
    properties = {
        "broker.id": "1",
        "zookeeper.connect": tree.connect + chroot,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": super_users,
    }

    async def join() -> None:
        loop = asyncio.get_running_loop()
        config = BrokerConfig(Setting("test", *each) for each in properties.items())
        membership = Membership(config, loop, LoopScheduler(loop), SystemClock(), pytest.fail)
        await membership.connect()
        membership.stop_asking()
        await membership.leave()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(join(), DEADLINE_S))
    assert [record.getMessage() for record in caplog.records if "who may not do" in record.getMessage()] == warnings
