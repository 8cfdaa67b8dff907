"""UpdateFeatures: v0-v2 (key 57)

Behaviour:
* All updates are made, or none: INVALID_UPDATE_VERSION and a reason for the first that is refused (KIP-584, KIP-778).
* Any broker of a cluster does it, as it needs only ZooKeeper; Kafka's tools ask the controller. The level of a feature
  must be one that each live broker supports.
* group.version does not go to 0 while a consumer group that this broker coordinates has members.
* metadata.version and kraft.version are refused: there is no quorum.
* The two kinds of downgrades are the same here, as no level loses metadata.

Versions: v0 says whether a downgrade is allowed, v1 which kind (KIP-778), and may only validate. v2 has no result of
each feature.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.features import GROUP_VERSION, FeatureChange, Finalised, Update, UpgradeType, updating
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.problem import Problem


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    updates = {
        each.feature: Update(each.max_version_level, _upgrade_type(each, context.version))
        for each in request.feature_updates
    }
    deferred = Deferred()
    wanted = updates.get(GROUP_VERSION)
    if wanted is not None and not wanted.level and node.groups.has_consumers():
        message = f"{GROUP_VERSION} cannot go to 0 while consumer groups have members: stop these first."
        return {"error_code": ErrorCode.invalid_update_version, "error_message": message, "results": ()}
    change = updating(node.features.supported, updates, node.clock.now_ms())

    def done(problem: Problem | None) -> None:
        if problem is not None:
            deferred.complete({"error_code": problem.error_code, "error_message": problem.message, "results": ()})
        else:
            deferred.complete({"results": [{"feature": name} for name in updates]})

    validate_only = context.version >= 1 and request.validate_only
    node.feature_store.change_features(_without_effect(change) if validate_only else change, done)
    return deferred.now_or_later()


def _upgrade_type(update: Any, version: int) -> int:
    if version >= 1:
        return int(update.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _without_effect(change: FeatureChange) -> FeatureChange:
    def validate(finalised: Finalised, others: Any) -> Finalised | Problem:
        outcome = change(finalised, others)
        return outcome if isinstance(outcome, Problem) else finalised

    return validate
