"""A token server on loopback for tests, the keys of its tokens, and the broker that takes them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus

from joserfc import jwk, jwt

from tests.serving import Answer, Asked, http_server

CLIENT: Final = "loader"
SECRET: Final = "of: the %loader+"  # noqa: S105 - of a server that lives as long as a test
KEY: Final = jwk.ECKey.generate_key("P-256", {"kid": "key"})


def token_of(user: str, lifetime_s: float = 300) -> str:
    now_s = time.time()
    claims = {"sub": user, "aud": "brokers", "iat": now_s, "exp": now_s + lifetime_s}
    return jwt.encode({"alg": "ES256", "kid": KEY.kid}, claims, KEY)


class TokenServer:
    """Gives tokens to `CLIENT` with `SECRET`; the user of a token is the id of its client."""

    def __init__(self) -> None:
        self.url = ""
        self.lifetime_s = 300.0
        self.scopes: list[str] = []
        """Of the tokens that were given, in order."""
        self.status = 200
        """What it answers a good question with."""

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote_plus(client), unquote_plus(secret)) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client", "error_description": f"not {secret}"}
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        if self.status != 200:
            return self.status, {}
        self.scopes += form.get("scope", [""])
        token = token_of(unquote_plus(client), self.lifetime_s)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}


@contextmanager
def running_token_server(certificate: Path | None = None) -> Iterator[TokenServer]:
    """With TLS, if there is a certificate with its key."""
    found = TokenServer()

    def answer(question: Asked) -> Answer:
        form = parse_qs(question.body.decode())
        status, document = found.answer(question.headers["Authorization"], form)
        return Answer(status, json.dumps(document).encode())

    with http_server(answer, certificate) as port:
        scheme = "http" if certificate is None else "https"
        found.url = f"{scheme}://127.0.0.1:{port}/token?tenant=hidden"
        yield found


def broker_properties(directory: Path) -> tuple[str, ...]:
    """Of a broker whose only listener takes tokens, and where `CLIENT` alone may do something."""
    keys = directory / "keys.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    return (
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url=file://{keys}",
        "sasl.oauthbearer.expected.audience=brokers",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        f"super.users=User:{CLIENT}",
        "offsets.topic.num.partitions=1",
    )


def client_properties(server: TokenServer, **more: str) -> dict[str, str]:
    """By the names of librdkafka."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
    } | {name.replace("_", "."): value for name, value in more.items()}
