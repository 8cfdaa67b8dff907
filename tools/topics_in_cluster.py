"""How long a client of a cluster waits beside the creation and the deletion of a large topic.

    python -m tools.topics_in_cluster

Two brokers and ZooKeeper on this host. A client of each broker asks for ApiVersions all the time; its longest waits are
printed, beside nothing, and beside topics of 1,000 and 5,000 partitions.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import api_versions
from highwater.kafka.client.settings import settings_of
from tests.broker.running_cluster import RunningCluster, running_cluster

_SETTLES_S: Final = 6.0


class Bystander(threading.Thread):
    """Asks one broker for ApiVersions until the process ends."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._address = ("127.0.0.1", port)
        self._client = BlockingClient(settings_of({"bootstrap.servers": f"127.0.0.1:{port}"}))
        self.longest_s = 0.0

    def run(self) -> None:
        while True:
            began_s = time.perf_counter()
            try:
                self._client.ask(self._address, api_versions("bystander"))
            except ClientError:
                return  # The cluster has ended.
            self.longest_s = max(self.longest_s, time.perf_counter() - began_s)
            time.sleep(0.001)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cluster-") as directory, running_cluster(Path(directory), 2) as cluster:
        _measure(cluster)


def _measure(cluster: RunningCluster) -> None:
    bystanders = {broker_id: Bystander(port) for broker_id, port in cluster.ports.items()}
    for bystander in bystanders.values():
        bystander.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    _report("nothing", bystanders)
    for partitions in (1000, 5000):
        name = f"t{partitions}"
        admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=60)[name].result()
        _report(f"creation of {partitions} partitions", bystanders)
        admin.delete_topics([name], request_timeout=60)[name].result()
        _report(f"deletion of {partitions} partitions", bystanders)


def _report(beside: str, bystanders: dict[int, Bystander]) -> None:
    time.sleep(_SETTLES_S)
    waits = ", ".join(f"broker {broker_id} {each.longest_s * 1000:.0f} ms" for broker_id, each in bystanders.items())
    sys.stdout.write(f"{beside}: {waits}\n")
    for each in bystanders.values():
        each.longest_s = 0.0


if __name__ == "__main__":
    main()
