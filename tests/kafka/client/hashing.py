"""Which threads hash the password of a login with SCRAM."""

from __future__ import annotations

import threading

import pytest

from highwater.kafka.login import credentials as login


def threads_that_hash(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The list grows with each step of a login from now on."""
    found: list[threading.Thread] = []
    answer = login._ScramLogin.answer

    def recorded(self: login._ScramLogin, challenge: bytes) -> bytes | None:
        found.append(threading.current_thread())
        return answer(self, challenge)

    monkeypatch.setattr(login._ScramLogin, "answer", recorded)
    return found
