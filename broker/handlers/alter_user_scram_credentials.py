"""AlterUserScramCredentials: v0-v0 (key 51)

Behaviour (KIP-554):
* Sets and removes credentials of users; of each user all that is asked happens, or nothing.
* UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL (no name, 4096 to 16384 iterations, no salt, no password),
  RESOURCE_NOT_FOUND to remove what is not there, DUPLICATE_RESOURCE for a user and mechanism named twice.
* In force for the next client that authenticates.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from broker.administration import Problem
from broker.handlers.reply import Reply, RequestContext
from broker.node import Node
from broker.security.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of_salted_password,
)

_logger = logging.getLogger(__name__)


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    known = node.store.scram_credentials()
    changed: dict[str, dict[ScramMechanism, ScramCredential]] = {}
    problems: dict[str, Problem] = {}
    asked = [*request.deletions, *request.upsertions]
    times = Counter((entry.name, entry.mechanism) for entry in asked)
    users = list(dict.fromkeys(entry.name for entry in asked))
    for entry in asked:
        problem = _unfit(entry, times[entry.name, entry.mechanism])
        if problem is not None:
            problems.setdefault(entry.name, problem)
    for entry in request.deletions:
        if entry.name in problems:
            continue
        credentials = changed.setdefault(entry.name, dict(known.get(entry.name, {})))
        if credentials.pop(ScramMechanism(entry.mechanism), None) is None:
            problems[entry.name] = Problem(
                ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
            )
    for entry in request.upsertions:
        if entry.name not in problems:
            mechanism = ScramMechanism(entry.mechanism)
            changed.setdefault(entry.name, dict(known.get(entry.name, {})))[mechanism] = credential_of_salted_password(
                mechanism, bytes(entry.salt), bytes(entry.salted_password), entry.iterations
            )
    changed = {user: credentials for user, credentials in changed.items() if user not in problems}
    if changed:
        try:
            node.store.put_scram_credentials(changed)
        except OSError as error:
            _logger.error("cannot change SCRAM credentials: %s", error)
            failed = Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
            problems |= dict.fromkeys(changed, failed)
    return {
        "results": [
            {"user": user}
            | (
                {"error_code": problems[user].error_code, "error_message": problems[user].message}
                if user in problems
                else {}
            )
            for user in users
        ]
    }


def _unfit(entry: Any, times: int) -> Problem | None:
    """What is wrong with a deletion or an upsertion by itself."""
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
