"""The parts of a node that only a member of a cluster has."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.broker.cluster.closed_leaders import ClosedLeaders
from highwater.broker.cluster.epochs import Epochs
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.controller.controller import Controller
from highwater.broker.member.groups_elsewhere import GroupsElsewhere
from highwater.broker.member.replica_manager import ReplicaManager
from highwater.broker.member.verification import RemoteVerification


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterParts:
    metadata: MetadataCache
    """The node's view of the cluster, which the controller updates."""
    closed_leaders: ClosedLeaders
    """The leaders whose successors Metadata waits for a moment."""
    epochs: Epochs
    replicas: ReplicaManager
    controller: Controller
    """Every member has one; the controller's is active."""
    verification: RemoteVerification
    groups_elsewhere: GroupsElsewhere
