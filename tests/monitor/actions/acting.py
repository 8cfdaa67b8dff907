"""An operator who acts on a real cluster, and the tools of Apache Kafka that show what came of it."""

from __future__ import annotations

from highwater.kafka.client.settings import settings_of
from highwater.kafka.requests.metadata import PartitionRow
from highwater.monitor.actions.acting import Actions
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import Plan
from highwater.monitor.users import Role, User
from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.tools import jars_4

ANN = User("ann", Role.OPERATOR, is_disabled=False, changed_s=0)
DEADLINE_S = 120
_TOOLS = "org.apache.kafka.tools"


class Acting:
    def __init__(self, bootstrap: str, system: str = "highwater") -> None:
        """system: highwater, 3.9 or 4; Kafka 4 is looked at with tools of its own line."""
        self.bootstrap = bootstrap
        self.jars = jars_4() if system == "4" else None
        self.actions = Actions(bootstrap, settings_of({"bootstrap.servers": bootstrap}))

    def plan(self, action: str, /, **form: str) -> Plan:
        return self.actions.plan(ANN, action, form)

    def do(self, action: str, /, **form: str) -> Plan:
        plan = self.plan(action, **form)
        made, outcomes = self.actions.carry_out(ANN, action, plan.fields, plan.digest, lambda _: None)
        assert {each.error for each in outcomes} == {""}, outcomes
        return made

    def row(self, topic: str) -> list[PartitionRow]:
        cluster = ActionCluster(settings_of({"bootstrap.servers": self.bootstrap}))
        try:
            return cluster.partitions(topic, ())
        finally:
            cluster.close()

    def node_ids(self) -> list[int]:
        cluster = ActionCluster(settings_of({"bootstrap.servers": self.bootstrap}))
        try:
            return cluster.alive
        finally:
            cluster.close()

    def tool(self, name: str, *arguments: str, stdin: str = "") -> str:
        bootstrap = ("--bootstrap-server", self.bootstrap)
        return succeed(f"{_TOOLS}.{name}", *bootstrap, *arguments, stdin=stdin, jars=self.jars)

    def configs(self, *arguments: str) -> str:
        # The tool is in the broker's jar, which only the older tools come with.
        return succeed("kafka.admin.ConfigCommand", "--bootstrap-server", self.bootstrap, "--describe", *arguments)

    def groups(self, *arguments: str) -> str:
        # Its own time-out is five seconds, which a busy machine needs to start it.
        return self.tool("consumer.group.ConsumerGroupCommand", "--timeout", "100000", *arguments)

    def topic(self) -> str:
        return self.tool("TopicCommand", "--describe", "--topic", "orders")

    def committed(self) -> dict[int, int]:
        lines = self.groups("--describe", "--group", "billing").splitlines()
        return {int(row[2]): int(row[3]) for row in map(str.split, lines) if row[:2] == ["billing", "orders"]}
