"""How clients of the story come in to clusters with cluster_security: tls, and the variables that make them so."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

import yaml
from kazoo.client import KazooClient

from highwater.kafka.client.secure_kazoo import SecureHandler, secure
from highwater.kafka.client.zookeeper_security import ZooKeeperLogin, ZooKeeperSecurity

_TIMEOUT_S: Final = 10.0
USER: Final = "story"
PASSWORD: Final = 'tells "stories" \\ 1001 €'  # noqa: S105
"""With what has to be quoted in every file that has it."""
READER: Final = "reader"
"""Who may read one topic, and no more."""
READ_ONLY: Final = "story-for-reader"

VARIABLES: Final = yaml.safe_dump(
    {
        "cluster_security": "tls",
        "cluster_users": [
            {"name": USER, "password": "{{ story_password }}", "super_user": True},
            {
                "name": READER,
                "password": "{{ story_password }}",
                "acls": [
                    {"topic": READ_ONLY, "operations": ["read"]},
                    {"group": "*", "operations": ["read"]},
                ],
            },
        ],
        "cluster_passwords": {"bench": "{{ story_password }}"},
        "cluster_mirrors": [{"source": "ssd", "target": "hdd", "topics": ["orders"], "prefix": "copy."}],
        "story_password": PASSWORD,
    }
)
"""Of all hosts."""


def authority(keys: Path) -> str:
    return str(keys / "authority.pem")


def of_librdkafka(keys: Path, user: str = USER) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority(keys),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def of_kafka_python(keys: Path) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": authority(keys),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }


def zookeeper(keys: Path, servers: str, *, logs_in: bool = True) -> KazooClient:
    """As verify.yml comes in; without a login as nobody."""
    tls = ssl.create_default_context(cafile=authority(keys))
    password = (keys / "cluster-verify.secret").read_text("utf-8").strip()
    client = KazooClient(servers, timeout=_TIMEOUT_S, handler=SecureHandler(tls))
    login = ZooKeeperLogin("verify", password) if logs_in else None
    secure(client, ZooKeeperSecurity(tls, login), lambda failure: None, gives_up=True)
    return client
