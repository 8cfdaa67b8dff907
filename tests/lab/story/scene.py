"""What the steps of the story share: the lab, the inventory as it is by now, and what was seen before."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, PartitionMetadata  # type: ignore[attr-defined]

from tests.lab import inventory
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, Played, differing
from tests.lab.record import Node
from tests.lab.story import access
from tests.waiting import wait_until

# Of brokers, as group_vars of the lab have them: cluster, port, log directory.
OURS: Final = {"ssd": (9092, "/data/ssd1/highwater-ssd"), "hdd": (9093, "/data/hdd1/highwater-hdd")}
REFERENCE: Final = {"ssd": (19092, "/data/ssd1/reference-kafka-ssd")}
DISKS: Final = {"/data/ssd1": "lab-ssd", "/data/hdd1": "lab-hdd"}
_MEMORY: Final = "scene.json"
_PARTITIONS: Final = 6
_ANSWER_WITHIN_S: Final = 10.0
# Of a network namespace; and swap, which none of them may have.
_OWN_SETTINGS: Final = ("net.", "swap")


@dataclass(frozen=True)
class Seen:
    """Of one host, by its own commands (Operator)."""

    settings: dict[str, str]
    files: dict[str, str]
    residue: dict[str, str]

    def differing(self, before: Seen) -> dict[str, tuple[str | None, str | None]]:
        """What is not as it was: each with what it was and what it is; of lists the lines that came or went."""
        lists = differing(before.residue, self.residue)
        changed = {what: (_only(old, new), _only(new, old)) for what, (old, new) in lists.items()}
        return changed | differing(before.files, self.files) | differing(before.settings, self.settings)


def _only(one: str | None, other: str | None) -> str:
    """Lines of one that the other has not."""
    known = set((other or "").splitlines())
    return "; ".join(line for line in (one or "").splitlines() if line not in known)


@dataclass
class Scene:
    operator: Operator
    evidence: Path
    """Where output of playbooks, logs of hosts and fetched reports are kept."""
    hosts: list[Node]
    """In the inventory from the start."""
    spare: Node | None
    """A host that becomes a broker later."""
    before: dict[str, Seen] = field(default_factory=dict)
    announced: Counter[tuple[str, str]] = field(default_factory=Counter)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    told: int = 0
    """How many steps went well."""
    is_secure: bool = False
    """With cluster_security: tls."""

    @property
    def copies(self) -> int:
        return min(3, len(self.hosts))

    @property
    def inventory(self) -> Path:
        return self.evidence / "inventory"

    def write_inventory(
        self, brokers: list[Node], others: list[Node], host_variables: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Of these brokers, and hosts that are no brokers; everything else is on the hosts of the start."""
        groups = inventory.groups_of([node.name for node in self.hosts])
        groups["brokers"] = [node.name for node in brokers]
        if self.is_secure:
            del groups["reference_kafka"]
        hosts = {node.name: (host_variables or {}).get(node.name, {}) for node in [*brokers, *others]}
        of_all = (inventory.COMMITTED / "group_vars/all.yml").read_text("utf-8")
        variables = {"all": of_all + access.VARIABLES} if self.is_secure else {}
        inventory.write_narrowed(self.operator.store, self.inventory, groups, hosts=hosts, variables=variables)

    @property
    def keys(self) -> Path:
        """The directory of the controller that has the authority and the passwords."""
        return self.operator.store.directory / "keys"

    @property
    def connection(self) -> dict[str, Any]:
        """TLS and the login of the story's own clients, by librdkafka's names."""
        return access.of_librdkafka(self.keys) if self.is_secure else {}

    @property
    def reference(self) -> dict[str, tuple[int, str]]:
        return {} if self.is_secure else dict(REFERENCE)

    def remember(self) -> None:
        """For whoever goes on with the story later (`recall`)."""
        known = {
            "told": self.told,
            "before": {name: asdict(seen) for name, seen in self.before.items()},
            "announced": [[host, task, count] for (host, task), count in self.announced.items()],
        }
        (self.evidence / _MEMORY).write_text(json.dumps(known), encoding="utf-8")

    def recall(self) -> None:
        """Raises FileNotFoundError where no story has begun."""
        known = json.loads((self.evidence / _MEMORY).read_text("utf-8"))
        self.told = known["told"]
        self.before = {name: Seen(**seen) for name, seen in known["before"].items()}
        self.announced = Counter({(host, task): count for host, task, count in known["announced"]})

    def keep(self, name: str, lines: list[str]) -> None:
        """Among the evidence."""
        (self.evidence / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def play(self, playbook: str, *arguments: str, status: int | None = 0) -> Played:
        return self.operator.play(playbook, "-i", str(self.inventory), *arguments, status=status)

    def run(self, node: Node, command: str) -> str:
        return self.operator.run(node, command)

    def each(self, look: Callable[[Node], Any], nodes: list[Node] | None = None) -> dict[str, Any]:
        """On all hosts at once; by their names."""
        asked = self.everybody if nodes is None else nodes
        with ThreadPoolExecutor(len(asked)) as pool:
            return dict(zip((node.name for node in asked), pool.map(look, asked), strict=True))

    @property
    def everybody(self) -> list[Node]:
        return [*self.hosts, *([self.spare] if self.spare else [])]

    def seen(self, node: Node) -> Seen:
        return Seen(self.settings(node), self.operator.files(node), self.operator.residue(node))

    def settings(self, node: Node) -> dict[str, str]:
        """Those that are the host's own: the others are the machine's, on which other labs may be."""
        return {key: value for key, value in self.operator.settings(node).items() if key.startswith(_OWN_SETTINGS)}

    def bootstrap(self, cluster: str) -> str:
        return ",".join(f"{node.address}:{OURS[cluster][0]}" for node in self.hosts)

    def client(self, cluster: str) -> dict[str, Any]:
        """What librdkafka needs to come in."""
        return {"bootstrap.servers": self.bootstrap(cluster), **self.connection}

    @property
    def topic(self) -> str:
        """That is written to; another one each time that the story is gone on with."""
        return next(iter(self.ledgers.values())).topic

    @contextmanager
    def load(self) -> Iterator[None]:
        """On all our clusters at once, acks=all, for the time of a with statement."""
        if not self.ledgers:
            topic = f"story-{len(list(self.evidence.glob('play-*')))}"
            self.ledgers = {name: Ledger(self.bootstrap(name), topic, connection=self.connection) for name in OURS}
            for ledger in self.ledgers.values():
                ledger.create_topic(_PARTITIONS, self.copies)
        with ExitStack() as stack:
            for ledger in self.ledgers.values():
                stack.enter_context(ledger.producing())
            yield

    def account(self) -> str:
        """That every record that was acknowledged is there once. Raises AssertionError."""
        for cluster, ledger in self.ledgers.items():
            assert ledger.acknowledged, f"cluster {cluster} has acknowledged nothing"
            assert (faults := ledger.faults()) == [], f"cluster {cluster}: {'; '.join(faults)}"
        counts = ", ".join(f"{len(ledger.acknowledged)} on {name}" for name, ledger in self.ledgers.items())
        return f"every acknowledged record there once ({counts})"

    def wait_until_whole(self, brokers: set[int], within_s: float = 120.0) -> float:
        """Until these are the brokers of all our clusters and every copy is in sync; the seconds that it took."""
        started_s = time.monotonic()
        for cluster in OURS:
            missing = partial(self._missing, cluster, brokers)
            left_s = started_s + within_s - time.monotonic()
            wait_until(lambda: not missing(), lambda: f"cluster {cluster}: {missing()}", left_s)  # noqa: B023 - called here
        return time.monotonic() - started_s

    def partitions(self, cluster: str) -> list[PartitionMetadata]:
        """Of the topic that is written to."""
        admin = AdminClient(self.client(cluster))
        return list(admin.list_topics(self.topic, _ANSWER_WITHIN_S).topics[self.topic].partitions.values())

    def _missing(self, cluster: str, brokers: set[int]) -> str:
        admin = AdminClient(self.client(cluster))
        try:
            found = admin.list_topics(timeout=_ANSWER_WITHIN_S)
        except Exception as error:
            return str(error)
        if found.brokers.keys() != brokers:
            return f"its brokers are {sorted(found.brokers)} and not {sorted(brokers)}"
        behind = [
            f"{topic.topic}-{partition.id}"
            for topic in found.topics.values()
            for partition in topic.partitions.values()
            if len(partition.isrs) < len(partition.replicas) or partition.leader < 0
        ]
        return f"not in sync: {', '.join(sorted(behind)[:5])}" if behind else ""
