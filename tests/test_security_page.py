"""The page on security: each protection names tests that are there, and the default is what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from highwater.broker.server.listeners import endpoints_of
from highwater.broker.settings.config import BrokerConfig

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = (ROOT / "docs/security.md").read_text()


def rows(heading: str) -> list[list[str]]:
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_each_claim_names_tests_that_are_there() -> None:
    claims = rows("By default") + rows("What protects what")
    assert len(claims) > 20
    for claim in claims:
        assert len(claim) == 3, claim
        tests = re.findall(r"`([^`]+)`", claim[2])
        assert tests or claim[2] == "not defended", claim
        for test in tests:
            assert "def test_" in (ROOT / test).read_text(), test


def test_what_is_not_defended_has_a_way_out_or_a_reason() -> None:
    assert all(len(row) == 2 and row[1] for row in rows("What is not defended"))


def test_a_broker_without_settings_listens_for_this_host_alone() -> None:
    endpoints, advertised = endpoints_of(BrokerConfig())
    assert [(endpoint.host, endpoint.protocol) for endpoint in endpoints] == [("127.0.0.1", "PLAINTEXT")]
    assert advertised == {}
