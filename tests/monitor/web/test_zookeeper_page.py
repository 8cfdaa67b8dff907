"""The browser of ZooKeeper: hostile names, hidden secrets, what it says when there is nothing to read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from highwater.monitor.model import ZooKeeper, ZooKeeperServer
from highwater.monitor.users import Role
from tests.monitor.clusters import HOSTILE_NAMES, SMALL
from tests.monitor.web.pages import seen, web_app
from tests.monitor.web.test_pages import ALLOWED_ELEMENTS, Elements
from tests.monitor.zookeeper.trees import MadeUpZooKeeper

SECRET = "tiger-7f2b"  # noqa: S105 - of a test
HOSTILE = [name for name in HOSTILE_NAMES if "/" not in name and "\t" not in name]
TREE = {
    "/": b"",
    "/brokers": b"",
    "/brokers/ids": b"",
    "/brokers/ids/1": b'{"endpoints":["PLAINTEXT://a:9092"],"timestamp":"1790000000000"}',
    "/controller_epoch": b"4",
    "/brokers/topics": b"",
    **{
        f"/brokers/topics/{name}": json.dumps({"partitions": {"0": [1]}, "topic_id": name}).encode() for name in HOSTILE
    },
    **{f"/consumers/group-{number:04}": b"" for number in range(120)},
    "/consumers": b"",
    "/config/users/carl": json.dumps(
        {"version": 1, "config": {"SCRAM-SHA-256": f"salt={SECRET},iterations=4096"}}
    ).encode(),
}
KNOWN = ALLOWED_ELEMENTS | {"nav"}
SILENT = ZooKeeper(silent_since_ms=1_790_000_000_000, error="no connection to any of its servers")
WELL = ZooKeeper(
    servers=(
        ZooKeeperServer("zk1:2181", "leader", "3.8.4", {"avg_latency": 0.25, "znode_count": 31}),
        ZooKeeperServer("zk2:2181", error="it does not answer: Connection refused"),
    ),
    sessions={"0xabc": ("/controller", "/brokers/ids/1")},
)


def page(
    tmp_path: Path, address: str, reader: MadeUpZooKeeper | None, said: ZooKeeper | None = WELL
) -> tuple[int, str]:
    snapshot, figures = seen(SMALL)
    view = (replace(snapshot, zookeeper=said), figures)
    with web_app(tmp_path, zookeeper=reader, view=view) as web:
        answer = web.browser(Role.VIEWER).get(address)
        return answer.status_code, answer.text


def test_a_hostile_znode_becomes_text_on_every_page(tmp_path: Path) -> None:
    with web_app(tmp_path, zookeeper=MadeUpZooKeeper(TREE)) as web:
        browser = web.browser(Role.VIEWER)
        paths = ["/", "/brokers/topics", *(f"/brokers/topics/{name}" for name in HOSTILE)]
        for path in paths:
            for form in ("json", "text", "hex"):
                answer = browser.get(f"/zookeeper?path={quote(path, safe='')}&as={form}")
                assert answer.status_code == 200, path
                elements = Elements(answer.text)
                assert not {tag for tag, _ in elements.found} - KNOWN
                for tag, attributes in elements.found:
                    assert not any(key.startswith("on") or key == "style" for key in attributes), (path, tag)
                    address = attributes.get("href") or attributes.get("action") or "/"
                    assert address.startswith(("/", "#"))
                    assert not address.startswith("//")
                # A form sends the very name back, in a field that nobody sees.
                assert "\u202e" not in re.sub(r'<input type="hidden"[^>]*>', "", answer.text)
        listed = browser.get("/zookeeper?path=/brokers/topics").text
        for name in HOSTILE:
            assert f"path={quote(f'/brokers/topics/{name}', safe='')}" in listed


def test_a_path_that_goes_up_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    for path in ("/..", "/../other", "brokers", "/a//b", "/a/", "/a\0", "%2e%2e"):
        status, text = page(
            tmp_path / quote(path, safe=""), f"/zookeeper?path={quote(path, safe='')}", MadeUpZooKeeper(TREE)
        )
        assert status == 400, path
        assert "This is not a path of a znode" in text


@pytest.mark.parametrize("form", ["json", "text", "hex", "nonsense"])
def test_a_secret_is_on_no_page_and_in_no_form(tmp_path: Path, form: str) -> None:
    status, text = page(tmp_path, f"/zookeeper?path=/config/users/carl&as={form}", MadeUpZooKeeper(TREE))
    assert status == 200
    assert SECRET not in text
    assert SECRET.encode().hex(" ") not in text
    assert "Hidden here: SCRAM-SHA-256." in text
    status, text = page(tmp_path / "api", "/api/v1/zookeeper?path=/config/users/carl", MadeUpZooKeeper(TREE))
    assert status == 200
    assert SECRET not in text


def test_a_znode_is_told_with_its_meaning_owner_and_children(tmp_path: Path) -> None:
    status, text = page(tmp_path / "a", "/zookeeper?path=/brokers/ids/1", MadeUpZooKeeper(TREE))
    assert status == 200
    for words in ("registration of broker 1", "session 0xabc", "listens at PLAINTEXT://a:9092", "zk2:2181", "3.8.4"):
        assert words in text, words
    status, text = page(tmp_path / "b", "/zookeeper?path=/consumers&page=3", MadeUpZooKeeper(TREE))
    assert "page 3 of 3" in text
    assert "group-0119" in text
    assert "group-0000" not in text
    status, text = page(tmp_path / "c", "/zookeeper?path=/consumers&find=007", MadeUpZooKeeper(TREE))
    assert "group-0070" in text
    assert "group-0100" not in text
    assert page(tmp_path / "d", "/zookeeper?path=/nothing", MadeUpZooKeeper(TREE))[0] == 404


def test_a_zookeeper_that_is_gone_is_told_with_its_time_and_the_page_stays(tmp_path: Path) -> None:
    status, text = page(tmp_path, "/zookeeper", MadeUpZooKeeper(TREE, "ZooKeeper does not answer now."), SILENT)
    assert status == 503
    assert "ZooKeeper does not answer since 2026-09-21 14:13:20 UTC: no connection to any of its servers" in text


def test_without_zookeeper_the_page_says_why_and_reads_nothing(tmp_path: Path) -> None:
    status, text = page(tmp_path / "a", "/zookeeper", None, None)
    assert status == 200
    assert "names no ZooKeeper" in text
    snapshot, figures = seen(SMALL)
    sources = {**snapshot.sources, "kafka controller": snapshot.sources["kafka"]}
    with web_app(tmp_path / "b", view=(replace(snapshot, sources=sources), figures)) as web:
        assert "has no ZooKeeper: its controllers are a quorum" in web.browser(Role.VIEWER).get("/zookeeper").text
        answer = web.browser(Role.VIEWER).get("/api/v1/zookeeper")
        assert (answer.status_code, "error" in answer.json()) == (404, True)


def test_the_page_does_not_read_itself_again_and_only_a_request_reads(tmp_path: Path) -> None:
    reader = MadeUpZooKeeper(TREE)
    with web_app(tmp_path, zookeeper=reader) as web:
        browser = web.browser(Role.VIEWER)
        assert "data-tick-s" not in browser.get("/zookeeper").text
        assert reader.reads == 1
        assert browser.get("/topics").status_code == browser.get("/api/v1/zookeeper/servers").status_code == 200
        assert reader.reads == 1
        assert web.browser().get("/zookeeper").status_code == 303
        assert browser.post("/zookeeper").status_code == 405
        assert reader.reads == 1
