"""Agents and a monitor as services: pages over TLS behind a login, hosts as tuned, nothing secret in sight."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from highwater.monitor.web.app import ROUTES
from tests.lab.broker_story import newer_tree
from tests.lab.browser import Answer, Browser, UnreachableError
from tests.lab.operating import Played, differing
from tests.lab.record import Node
from tests.lab.story.scene import OURS, Scene

_CLUSTER: Final = "ssd"
_UNIT: Final = f"highwater-monitor@{_CLUSTER}.service"
_AGENT: Final = "highwater-agent.service"
_PORT: Final = 9644
_AGENT_PORT: Final = 9646
# Pages without TLS, of the monitor's metrics and of the broker's: for programs of the host alone.
_LOOPBACK_PORTS: Final = (9645, OURS[_CLUSTER][0] + 1100)
_ADMIN: Final = "admin"
_RELEASE: Final = "basename $(readlink /opt/highwater/monitor/current)"
# A setting that each host of the lab has for itself, and that the tuner sets.
_SETTING: Final = "net.ipv4.tcp_slow_start_after_idle"
# The agent reads settings once a minute.
_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.5


def monitor(scene: Scene) -> str:
    """Made on a host without one; looked at from outside; killed; a second run changes nothing."""
    node = scene.hosts[0]
    before, known = scene.operator.files(node), sorted(_keys(scene).glob("*"))
    announced = _play(scene, "--check", "--diff")
    assert announced.changed > 0, "check mode announces nothing on a host without a monitor"
    assert differing(before, scene.operator.files(node)) == {}, "check mode has changed something"
    assert sorted(_keys(scene).glob("*")) == known, "check mode has made keys"
    played = _play(scene, "--diff")
    browser = _logged_in(scene, node)
    told = [
        _only_after_login(scene, node),
        _cluster_seen(scene, browser),
        _as_tuned(scene, browser),
        _nothing_plain(scene, node),
        _killed_and_drifted(scene, node, browser),
    ]
    again = _play(scene)
    assert again.changed == 0, f"changed again: {sorted(task for _, task in again.changes)}"
    _no_secret_in_sight(scene, node, played.out + again.out)
    return f"{node.name}: {'; '.join(told)}; nothing secret in logs, units, processes; the second run changed nothing"


def upgraded(scene: Scene) -> str:
    """To a newer tree and back: users and history are those of before."""
    node = scene.hosts[0]
    first, rows = scene.run(node, _RELEASE), _rows_of_history(scene, node)
    assert rows > 0, "the history has no row"
    with tempfile.TemporaryDirectory() as directory:
        scene.play("monitor.yml", "-e", f"package_source={newer_tree(Path(directory), 'newer')}")
    second, more = scene.run(node, _RELEASE), _rows_of_history(scene, node)
    _logged_in(scene, node)
    scene.play("monitor.yml", "-e", "package_release=previous")
    third, most = scene.run(node, _RELEASE), _rows_of_history(scene, node)
    _logged_in(scene, node)
    assert first == third != second, f"releases: {first}, {second}, {third}"
    assert rows <= more <= most, f"rows of the history: {rows}, {more}, {most}"
    return f"{first} to {second} and back; the user logs in, and the history grew from {rows} to {most} rows"


def _play(scene: Scene, *options: str) -> Played:
    """Both playbooks in one run."""
    return scene.operator.play("agent.yml", "monitor.yml", "-i", str(scene.inventory), *options)


def _keys(scene: Scene) -> Path:
    return scene.keys


def _secret(scene: Scene, name: str) -> str:
    return (_keys(scene) / f"{name}.secret").read_text("utf-8").strip()


def _authority(scene: Scene) -> str:
    return (_keys(scene) / "authority.pem").read_text("utf-8")


def _site(node: Node) -> str:
    return f"https://{node.address}:{_PORT}"


def _logged_in(scene: Scene, node: Node) -> Browser:
    browser = Browser(_site(node), _authority(scene))
    answer = browser.log_in(_ADMIN, _secret(scene, "monitor-admin"))
    assert (answer.status, answer.location) == (303, "/"), f"the login ended with {answer.status}: {answer.words[:300]}"
    return browser


def _only_after_login(scene: Scene, node: Node) -> str:
    """The lab's authority alone is trusted, and every path of the monitor's table is asked without a session."""
    with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
        Browser(_site(node)).get("/login")
    stranger = Browser(_site(node), _authority(scene))
    assert (status := stranger.get("/login").status) == 200, f"the page of the login has the status {status}"
    closed = [route for route in ROUTES if route.role is not None]
    for route in closed:
        answer = stranger.get(route.path) if route.get else stranger.post(route.path, {})
        is_refused = answer.status in (401, 403) or (answer.status == 303 and answer.location.startswith("/login"))
        assert is_refused, f"{route.path} without a login has the status {answer.status} {answer.location}"
    wrong = stranger.log_in(_ADMIN, "a wrong password of many words")
    assert wrong.status == 401, f"a wrong password has the status {wrong.status}"
    return f"the login's page over TLS, {len(closed)} paths closed without it"


def _cluster_seen(scene: Scene, browser: Browser) -> str:
    count = len(scene.hosts)
    overview = _wait(lambda: browser.get("/"), lambda seen: f"Brokers {count} controller: broker" in seen)
    named = _wait(
        lambda: browser.get("/brokers"),
        lambda seen: all(f"{node.address}:{OURS[_CLUSTER][0]}" in seen for node in scene.hosts),
    )
    assert overview.status == named.status == 200
    return f"{count} broker(s) seen"


def _as_tuned(scene: Scene, browser: Browser) -> str:
    count = len(scene.hosts)
    wanted = "The host's tuning is in place" if count == 1 else f"The tuning of all {count} hosts is in place"
    found = _wait(lambda: browser.get("/hosts"), lambda seen: wanted in seen)
    assert all(node.name in found.words for node in scene.hosts), found.words[:500]
    return wanted


def _nothing_plain(scene: Scene, node: Node) -> str:
    """What has no TLS answers on the host itself, and not to this machine; the agent has both, TLS and a token."""
    for port in _LOOPBACK_PORTS:
        listening = scene.run(node, f"ss -Hltn 'sport = :{port}'")
        assert f"127.0.0.1:{port}" in listening, f"{node.name}: nothing listens on 127.0.0.1:{port}: {listening}"
        try:
            socket.create_connection((node.address, port), timeout=5).close()
        except ConnectionRefusedError:
            continue
        raise AssertionError(f"{node.name}: port {port} can be reached from another host")
    agent = Browser(f"https://{node.address}:{_AGENT_PORT}", _authority(scene))
    assert (status := agent.get("/host").status) == 401, f"the agent answers {status} without its token"
    token = _secret(scene, f"agent-{node.name}")
    assert (status := agent.get("/host", {"Authorization": f"Bearer {token}"}).status) == 200, f"with it {status}"
    return f"{len(_LOOPBACK_PORTS)} plain ports on loopback alone"


def _killed_and_drifted(scene: Scene, node: Node, browser: Browser) -> str:
    """A setting is changed by hand; monitor and agent die, and systemd starts them; the session goes on."""
    tuned = scene.run(node, f"sysctl -n {_SETTING}")
    other = "1" if tuned == "0" else "0"
    scene.run(node, f"sysctl -q -w {_SETTING}={other}")
    try:
        for unit in (_UNIT, _AGENT):
            scene.run(node, f"kill -9 $(systemctl show -p MainPID --value {unit})")
        drift = f"{_SETTING} is {other}, applied was {tuned}"
        found = _wait(lambda: browser.get("/hosts"), lambda seen: drift in seen)
        assert found.status == 200, f"the session ended with the monitor that was killed: {found.status}"
    finally:
        scene.run(node, f"sysctl -q -w {_SETTING}={tuned}")
    for unit in (_UNIT, _AGENT):
        count = int(scene.run(node, f"systemctl show -p NRestarts --value {unit}"))
        assert count == 1, f"{node.name}: systemd has started {unit} again {count} times"
    return f"both killed and back, with the drift {drift!r}"


def _no_secret_in_sight(scene: Scene, node: Node, printed: str) -> None:
    secrets = {path.name: path.read_text("utf-8").strip() for path in _keys(scene).glob("*.secret")}
    secrets |= {path.name: path.read_text("utf-8").splitlines()[1] for path in _keys(scene).glob("*.key")}
    assert len(secrets) >= 4, f"keys of the lab: {', '.join(secrets)}"
    places = {
        "what the playbooks printed": printed,
        "the journal": scene.run(node, "journalctl --no-pager --output=cat"),
        "a process": scene.run(node, "ps -eww -o args"),
        "a unit": scene.run(node, f"systemctl cat {_UNIT} {_AGENT}; systemctl show {_UNIT} {_AGENT}"),
        "the monitor's file": scene.run(node, f"cat /etc/highwater/monitor/{_CLUSTER}/monitor.yaml"),
    }
    for name, text in secrets.items():
        for place, content in places.items():
            assert text not in content, f"{place} has {name}"
    listed = scene.run(node, "find /etc/highwater/monitor /etc/highwater-agent -type f -perm /077 -printf '%f '")
    assert listed.split() == ["monitor.yaml"], f"others may read {listed}"


def _rows_of_history(scene: Scene, node: Node) -> int:
    """By SQLite alone, while the monitor writes."""
    file = f"/var/lib/highwater/monitor/{_CLUSTER}/history.db"
    rows = f"sqlite3.connect('file:{file}?mode=ro', uri=True).execute('SELECT count(*) FROM cluster_raw')"
    return int(scene.run(node, f'python3 -c "import sqlite3; print({rows}.fetchone()[0])"'))


def _wait(get: Callable[[], Answer], is_there: Callable[[str], bool]) -> Answer:
    """For a page that shows something. Raises AssertionError with what it shows."""
    deadline_s = time.monotonic() + _WITHIN_S
    shown = ""
    while time.monotonic() < deadline_s:
        try:
            answer = get()
        except UnreachableError as error:  # killed, and not back yet
            shown = str(error)
        else:
            if is_there(answer.words):
                return answer
            shown = answer.words
        time.sleep(_POLL_S)
    raise AssertionError(f"not seen within {_WITHIN_S:.0f} s; the page: {shown[:1500]}")
