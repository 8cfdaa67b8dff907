"""UpdateFeatures: v0-v2 (key 57)

Behaviour:
* All updates are made, or none: INVALID_UPDATE_VERSION and a reason for the first that is refused (KIP-584, KIP-778).
* Any broker of a cluster does it, as it needs only ZooKeeper; Kafka's tools ask the controller. The level of a feature
  must be one that each live broker supports.
* group.version does not go to 0 while a consumer group has members, or a broker does not say whether one has.
* metadata.version and kraft.version are refused: there is no quorum.
* The two kinds of downgrades are the same here, as no level loses metadata.

Versions: v0 says whether a downgrade is allowed, v1 which kind (KIP-778), and may only validate. v2 has no result of
each feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.features import GROUP_VERSION, FeatureChange, Finalised, Update, UpgradeType, updating
from highwater.broker.group.members import CONSUMER
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    updates = {
        each.feature: Update(each.max_version_level, _upgrade_type(each, context.version))
        for each in request.feature_updates
    }
    deferred = Deferred()
    change = updating(node.features.supported, updates, node.clock.now_ms())

    def done(problem: Problem | None) -> None:
        if problem is not None:
            deferred.complete({"results": ()} | error_fields(problem))
        else:
            deferred.complete({"results": [{"feature": name} for name in updates]})

    def go_on(counts: Mapping[int, int | None]) -> None:
        if (reason := _in_use(counts)) is not None:
            done(Problem(ErrorCode.invalid_update_version, reason))
            return
        validate_only = context.version >= 1 and request.validate_only
        node.feature_store.change_features(_without_effect(change) if validate_only else change, done)

    wanted = updates.get(GROUP_VERSION)
    if wanted is not None and not wanted.level and node.features.level(GROUP_VERSION):
        _count_consumer_groups(node, go_on)
    else:
        go_on({})
    return deferred.now_or_later()


def _count_consumer_groups(node: Node, then: Callable[[Mapping[int, int | None]], None]) -> None:
    """Call back with how many have members, by the broker that coordinates them; None for one that does not say."""

    def go_on(elsewhere: Mapping[int, int | None]) -> None:
        error, groups = node.groups.all_groups()
        here = None if error else sum(group.kind == CONSUMER and not group.is_empty for group in groups)
        then({node.broker_id: here, **elsewhere})

    if node.member is None:
        go_on({})
    else:
        node.member.groups_elsewhere.count(go_on)


def _in_use(counts: Mapping[int, int | None]) -> str | None:
    """Return why group.version cannot go to 0, or None."""
    cannot = f"{GROUP_VERSION} cannot go to 0 while consumer groups have members"
    if any(counts.values()):
        told = ", ".join(f"{count} of broker {broker_id}" for broker_id, count in sorted(counts.items()) if count)
        return f"{cannot}: stop the consumers of these groups first ({told})."
    if silent := sorted(broker_id for broker_id, count in counts.items() if count is None):
        told = ", ".join(map(str, silent))
        return (
            f"{cannot}, and of broker {told} it is not known whether one of its groups has: ask again when it answers."
        )
    return None


def _upgrade_type(update: Any, version: int) -> int:
    if version >= 1:
        return int(update.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _without_effect(change: FeatureChange) -> FeatureChange:
    def validate(finalised: Finalised, others: Any) -> Finalised | Problem:
        outcome = change(finalised, others)
        return outcome if isinstance(outcome, Problem) else finalised

    return validate
