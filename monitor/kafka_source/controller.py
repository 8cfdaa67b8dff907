"""The controller of a cluster without ZooKeeper. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from highwater.kafka.client.request import Request, cold_request, error_text


class Quorum(NamedTuple):
    error: str
    leader: int | None
    """The node id of the active controller."""
    epoch: int | None


_METADATA_TOPIC = "__cluster_metadata"


def describe_quorum() -> Request[Quorum]:
    """Metadata names a broker at random as the controller where controllers are nodes of their own (KRaft)."""

    def read(answer: Any) -> Quorum:
        if answer.error_code.value:
            return Quorum(error_text(answer.error_code, getattr(answer, "error_message", None)), None, None)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code.value:
                    return Quorum(error_text(each.error_code, None), None, None)
                return Quorum("", each.leader_id if each.leader_id >= 0 else None, each.leader_epoch)
        return Quorum("the answer names no quorum", None, None)

    topics = [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    return cold_request("describe_quorum", 0, 1, {"topics": topics}, read)
