"""AlterUserScramCredentials: v0-v0 (key 51)

Behaviour (KIP-554):
* Sets and removes credentials of users; each user succeeds or fails by itself, as a whole.
* UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL (no name, 4096 to 16384 iterations, no salt, no password),
  RESOURCE_NOT_FOUND to remove a missing credential, DUPLICATE_RESOURCE for a user and mechanism named twice.
* In force for the next client that authenticates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.quota_entities import Entity
from highwater.kafka.login.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of_salted_password,
)
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    problems: dict[str, Problem | None] = {}
    asked = [*request.deletions, *request.upsertions]
    times = Counter((entry.name, entry.mechanism) for entry in paced(asked))
    users = list(dict.fromkeys(entry.name for entry in paced(asked)))
    for entry in paced(asked):
        problem = _unfit(entry, times[entry.name, entry.mechanism])
        if problem is not None:
            problems.setdefault(entry.name, problem)
    wanted: dict[str, dict[ScramMechanism, ScramCredential | None]] = {
        user: {} for user in paced(users) if user not in problems
    }
    for entry in request.deletions:
        if entry.name in wanted:
            wanted[entry.name][ScramMechanism(entry.mechanism)] = None
    for entry in request.upsertions:
        if entry.name in wanted:
            mechanism = ScramMechanism(entry.mechanism)
            wanted[entry.name][mechanism] = credential_of_salted_password(
                mechanism, bytes(entry.salt), bytes(entry.salted_password), entry.iterations
            )
    deferred = Deferred()
    paths = {metadata_tree.quota_path(Entity(user)): user for user in paced(wanted)}

    def changed(outcome: Mapping[str, Problem | None]) -> None:
        told = problems | {paths[path]: problem for path, problem in outcome.items()}
        deferred.complete(lambda: {"results": [{"user": user} | error_fields(told[user]) for user in paced(users)]})

    node.store.change_configs({path: partial(_change, wanted[user]) for path, user in paths.items()}, changed)
    return deferred.now_or_later()


def _change(
    wanted: Mapping[ScramMechanism, ScramCredential | None], present: Mapping[str, str]
) -> Mapping[str, str] | Problem:
    config = dict(present)
    for mechanism, credential in wanted.items():
        if credential is not None:
            config |= metadata_tree.scram_config({mechanism: credential})
        elif config.pop(mechanism.text, None) is None:
            return Problem(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
    return config


def _unfit(entry: Any, times: int) -> Problem | None:
    """Return the error of one deletion or upsertion, or None."""
    if not entry.name:
        return Problem(ErrorCode.unacceptable_credential, "Username must not be empty")
    if entry.mechanism not in list(ScramMechanism):
        return Problem(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if times > 1:
        return Problem(
            ErrorCode.duplicate_resource,
            "A user credential cannot be altered twice in the same request",
        )
    if not hasattr(entry, "iterations"):
        return None
    if entry.iterations < LEAST_ITERATIONS:
        return Problem(ErrorCode.unacceptable_credential, "Too few iterations")
    if entry.iterations > MOST_ITERATIONS:
        return Problem(ErrorCode.unacceptable_credential, "Too many iterations")
    if not entry.salt:
        return Problem(ErrorCode.unacceptable_credential, "Salt must not be empty")
    if not entry.salted_password:
        return Problem(ErrorCode.unacceptable_credential, "Password must not be empty")
    return None
