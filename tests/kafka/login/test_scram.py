"""Credentials: what is kept of a password, and its text."""

from __future__ import annotations

import base64
import hmac

import pytest

from highwater.kafka.login.scram import (
    ScramCredential,
    ScramMechanism,
    credential_of_salted_password,
    decode_credential,
    decoy,
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


MECHANISM = ScramMechanism.SCRAM_SHA_256


def user_of(password: str, iterations: int = 4096) -> dict[ScramMechanism, ScramCredential]:
    salted = salt_password(MECHANISM, password, SALT, iterations)
    return {MECHANISM: credential_of_salted_password(MECHANISM, SALT, salted, iterations)}


def test_the_first_user_by_name_can_compute_the_salt_of_a_made_up_user() -> None:
    """docs/security.md says so: the secret behind it is a key of that user."""
    ada, bob = user_of("a"), user_of("b")
    assert decoy({"ada": ada, "bob": bob}, MECHANISM, "nobody") == decoy({"ada": ada}, MECHANISM, "nobody")
    assert decoy({"ada": ada, "bob": bob}, MECHANISM, "nobody") != decoy({"bob": bob}, MECHANISM, "nobody")


def test_a_made_up_user_has_the_iterations_of_the_first_one_by_name() -> None:
    """docs/security.md says so: with other numbers, users who are there can be told from those who are not."""
    known = {"bob": user_of("b", 4096), "ada": user_of("a", 8192)}
    assert decoy(known, MECHANISM, "nobody").iterations == 8192
