"""Credentials: what is kept of a password, and its text."""

from __future__ import annotations

import base64
import hmac

import pytest

from highwater.broker.security.scram import (
    ScramMechanism,
    credential_of_salted_password,
    decode_credential,
    encode_credential,
    iterations_problem,
    salt_password,
)

SALT = bytes(range(16))


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_a_credential_survives_its_text(mechanism: ScramMechanism) -> None:
    salted = salt_password(mechanism, "secret", SALT, 4096)
    credential = credential_of_salted_password(mechanism, SALT, salted, 4096)
    assert decode_credential(encode_credential(credential)) == credential


def test_the_example_of_rfc_7677() -> None:
    """RFC 7677 §3: its server signature follows from our server key."""

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salt_password(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)
    credential = credential_of_salted_password(ScramMechanism.SCRAM_SHA_256, salt, salted, 4096)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    signature = hmac.digest(credential.server_key, message.encode(), "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("text", ["", "salt=x", "salt=AA==,stored_key=AA==,server_key=AA==,iterations=many"])
def test_text_that_is_no_credential(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        decode_credential(text)


@pytest.mark.parametrize("count", ["4096", "16384", "1000000"])
def test_counts_of_iterations_that_a_client_takes(count: str) -> None:
    assert iterations_problem(f"r=x,s=AA==,i={count}") is None


@pytest.mark.parametrize("count", ["0", "4095", "1000001", "99999999999999999999", "-5000", "4096x", "", "٤٠٩٦"])
def test_counts_of_iterations_that_a_client_refuses(count: str) -> None:
    problem = iterations_problem(f"r=x,s=AA==,i={count}")
    assert problem is not None
    assert problem.endswith("this client takes 4,096 to 1,000,000")
    assert len(problem) < 110
