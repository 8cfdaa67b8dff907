"""`highwater broker cluster`: which cluster answers, its brokers and its controller."""

from __future__ import annotations

from broker.commands.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    result_of,
)
from broker.commands.terminal import JsonOption, print_json, print_table, reporting, say


def cluster(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which cluster answers, its brokers and its controller. Exit code: 0, 1 the broker said no, 2 wrong usage."""
    with reporting():
        connected = Cluster(bootstrap_server, command_config)
        metadata = connected.metadata
        leaders = [p.leader for topic in metadata.topics.values() for p in topic.partitions.values()]
        described = result_of("cluster", connected.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S))
        controller = described.controller.id if described.controller is not None else None
        brokers = sorted(described.nodes, key=lambda node: int(node.id))
        if as_json:
            print_json(
                {
                    "cluster_id": described.cluster_id,
                    "controller": controller,
                    "topics": len(metadata.topics),
                    "partitions": len(leaders),
                    "brokers": [
                        {
                            "id": node.id,
                            "host": node.host,
                            "port": node.port,
                            "rack": node.rack,
                            "leaders": leaders.count(node.id),
                        }
                        for node in brokers
                    ],
                }
            )
            return
        say(f"Cluster: {described.cluster_id}  Topics: {len(metadata.topics)}  Partitions: {len(leaders)}")
        print_table(
            ("Broker", "Address", "Rack", "Leads", "Controller"),
            [
                (
                    node.id,
                    f"{node.host}:{node.port}",
                    node.rack,
                    leaders.count(node.id),
                    "yes" if node.id == controller else "",
                )
                for node in brokers
            ],
        )
