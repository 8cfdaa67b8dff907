"""Asks Apache Kafka 3.9 and our broker the same as a user with few rights, and prints where the answers differ.

.venv/bin/python -m tests.compat.apache_kafka.authorization_differs

- is Kafka's line, + ours.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.broker.running import running_broker
from tests.compat.apache_kafka.answers.authorization import PROPERTIES, USERS, authorizing
from tests.compat.apache_kafka.answers.script import Connection, Script
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper


class UserConnection(Connection):
    """Logs in on each connection."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port)
        self._user = user

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        if self._socket is None:
            super().ask("sasl_handshake", 1, mechanism="PLAIN")
            token = f"\0{self._user}\0{USERS[self._user]}".encode()
            answer = super().ask("sasl_authenticate", 2, auth_bytes=token)
            assert not answer.error_code, answer
        if api == "produce" and fields["acks"] == 0:
            # No answer comes; the next one tells whether the broker hung up.
            return self._without_answer(api, version, **fields)
        return super().ask(api, version, **fields)

    def _without_answer(self, api: str, version: int, /, **fields: Any) -> Any:
        self.send(api, version, **fields)
        return super().ask("api_versions", 0) and None


class AuthorizationScript(Script):
    def text(self, value: Any, field: str = "") -> str:
        if field == "producer_id" and isinstance(value, int) and value >= 0:
            return "some"
        if field == "error_message":
            return "any"
        if field == "aborted_transactions" and value is None:
            return "[]"
        return super().text(value, field)


def told_by(port: int) -> list[str]:
    """The answers of the broker, under each set of ACLs."""
    script = AuthorizationScript(UserConnection(port, "alice").ask)
    authorizing(script, UserConnection(port, "admin").ask)
    return script.lines


def differences(directory: Path) -> list[str]:
    """The lines that differ, with the ACLs above them; known differences are left out."""
    (directory / "log").mkdir()
    with running_zookeeper(directory) as zookeeper, running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka:
        kafkas = told_by(kafka.port)
    properties = [f"{key}={value}" for key, value in PROPERTIES.items()]
    with running_broker(directory / "ours", properties=properties) as broker:
        ours = told_by(broker.port)
    return compared(kafkas, ours)


def compared(kafkas: list[str], ours: list[str]) -> list[str]:
    different, acls = [], ""
    for theirs, own in zip(kafkas, ours, strict=True):
        if own.startswith("#"):
            acls = own
        if theirs != own and own.partition(":")[0] not in KNOWN:
            different += [acls, f"-{theirs}", f"+{own}"]
    return different


KNOWN: Final = {
    # Kafka leaves out the partitions, so that a client of this version takes a refusal for an empty group.
    "offset_fetch v1 ",
    # Kafka hangs up when it refuses to describe all users.
    "describe_user_scram_credentials v0 all",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        sys.stdout.writelines(f"{line}\n" for line in differences(Path(name)))


if __name__ == "__main__":
    main()
