"""Credentials for SCRAM set through the protocol."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from highwater.kafka.login.scram import ScramMechanism, salt_password
from tests.broker.handlers.harness import NodeHarness


def _set(node: NodeHarness, salt: bytes, iterations: int = 4096) -> ErrorCode:
    answer = node.ask(
        "alter_user_scram_credentials",
        0,
        deletions=[],
        upsertions=[
            {
                "name": "ada",
                "mechanism": ScramMechanism.SCRAM_SHA_256,
                "iterations": iterations,
                "salt": salt,
                "salted_password": salt_password(ScramMechanism.SCRAM_SHA_256, "secret", salt, iterations),
            }
        ],
    )
    (result,) = answer.results
    return ErrorCode(result.error_code)


def test_the_client_chooses_how_long_its_salt_is(node: NodeHarness) -> None:
    # librdkafka's own tests take one of four bytes, which Apache Kafka accepts.
    assert _set(node, b"salt") == ErrorCode.none
    assert _set(node, b"s\0l\0") == ErrorCode.none
    assert _set(node, b"") == ErrorCode.unacceptable_credential


def test_too_few_and_too_many_iterations_are_refused(node: NodeHarness) -> None:
    assert _set(node, b"salt", 4095) == ErrorCode.unacceptable_credential
    assert _set(node, b"salt", 16384) == ErrorCode.none
    assert _set(node, b"salt", 16385) == ErrorCode.unacceptable_credential
