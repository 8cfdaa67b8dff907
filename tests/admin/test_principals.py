"""A command that is denied names the user as whom it came, and the way out."""

from __future__ import annotations

import pytest

from highwater.admin.client import _principal_of
from highwater.admin.terminal import ANONYMOUS, CommandError, acts_as, reporting

DENIED = "users of SCRAM: CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("properties", "principal"),
    [
        ({}, ANONYMOUS),
        ({"security.protocol": "SSL"}, ANONYMOUS),
        ({"security.protocol": "SSL", "ssl.certificate.location": "c.pem"}, "the user of its certificate"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}, "User:ann"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "the user of its token"),
    ],
)
def test_whom_brokers_take_a_client_for(properties: dict[str, str], principal: str) -> None:
    assert _principal_of(properties) == principal


@pytest.mark.parametrize(
    ("principals", "text", "told"),
    [
        ([ANONYMOUS], DENIED, "; this client is User:ANONYMOUS: log in as a user who has the right"),
        (["User:ann"], DENIED, "; this client is User:ann: a user of super.users can give the right"),
        (["User:ann", "User:bob"], DENIED, "; this client is User:ann or User:bob: "),
        (["User:ann"], "refuses the login: SASL_AUTHENTICATION_FAILED", ""),
        ([], DENIED, ""),
    ],
)
def test_a_denial_names_the_user(
    principals: list[str], text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        with reporting():
            for principal in principals:
                acts_as(principal)
            raise CommandError(text)

    with pytest.raises(SystemExit):
        fail()
    error = capsys.readouterr().err
    assert error.startswith(f"error: {text}{told}")
    assert error.count("\n") == 1
    assert told or error == f"error: {text}\n"
