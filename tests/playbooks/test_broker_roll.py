"""Whom the role broker starts and whom it restarts, which release is the previous one, a host that is gone for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.playbooks.playing import Played, play, succeeded

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
# In place of the module of this name: what each host is told.
TELLS_STATES = """
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({"units": {"type": "list", "elements": "dict"}})
states = {
    "down": (False, False, []), "starting": (False, True, []), "never-up": (False, True, ["properties"]),
    "fine": (True, False, []), "stale": (True, False, ["properties"]),
}
name = module.params["units"][0]["unit"].removeprefix("highwater-broker@").removesuffix(".service")
running, starting, stale = states[name]
module.exit_json(units=[{"is_running": running, "is_starting": starting, "stale": stale}])
"""


def played(folder: Path, hosts: dict[str, dict[str, Any]], tasks: list[dict[str, Any]], **of_play: Any) -> Played:
    inventory = {"all": {"children": {"brokers": {"hosts": hosts, "vars": LOCAL}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    plays = [{"name": "It", "hosts": "brokers", "gather_facts": False, "tasks": tasks, **of_play}]
    (folder / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
    return play(folder, "-i", folder / "hosts.yml", folder / "play.yml")


def included(role: str, tasks_from: str = "main") -> dict[str, Any]:
    return {"name": "Include", "ansible.builtin.include_role": {"name": role, "tasks_from": tasks_from}}


def say(what: str) -> dict[str, Any]:
    return {"name": "Say", "ansible.builtin.debug": {"msg": what}, "run_once": True}


def test_who_runs_with_something_else_is_restarted_and_who_serves_nobody_is_started(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/highwater_unit_state.py").write_text(TELLS_STATES)
    instances = [
        {"name": name, "port": 9092 + at, "log_dirs": [f"/data/{name}"]}
        for at, name in enumerate(("down", "starting", "never-up", "fine", "stale"))
    ]
    host = {"broker_id": 1, "ansible_host": "10.0.0.1", "broker_instances": instances}
    variables = {"package_release_name": "r", "broker_zookeeper_connect": "10.0.0.1:2181"}
    names = "{{ %s | map(attribute='name') | list }}"
    told = f"told {names % '__broker_to_start'} {names % '__broker_to_restart'}"
    tasks = [included("broker", "look"), say(told)]
    out = succeeded(played(tmp_path, {"b1": host}, tasks, vars=variables)).stdout
    assert "told ['down', 'never-up'] ['stale']" in out


def releases(root: Path, current: str, previous: str) -> None:
    for name in {current, previous}:
        (root / "releases" / name).mkdir(parents=True)
        (root / "releases" / name / "release").write_text(name)
    for link, name in (("current", current), ("previous", previous)):
        (root / link).symlink_to(Path("releases") / name)


@pytest.mark.slow
@pytest.mark.parametrize("is_half_way", [False, True])
def test_the_previous_release_is_the_same_on_all_hosts_or_has_to_be_named(tmp_path: Path, is_half_way: bool) -> None:
    releases(tmp_path / "b1", "r3", "r2")
    releases(tmp_path / "b2", *(("r2", "r1") if is_half_way else ("r3", "r2")))
    variables = {
        "package_app": "broker",
        "package_root": f"{tmp_path}/{{{{ inventory_hostname }}}}",
        "package_release": "previous",
        "package_switch": False,
        "package_python": "{{ ansible_playbook_python }}",
    }
    done = played(tmp_path, {"b1": {}, "b2": {}}, [included("package")], vars=variables)
    told = " ".join(done.stdout.split())
    if is_half_way:
        assert done.returncode == 2
        assert "the previous release of broker is not the same everywhere" in told
        assert "-e package_release=NAME" in told
    else:
        assert done.returncode == 0, done.stdout


def test_a_host_that_is_gone_is_left_alone_when_brokers_are_taken_away(tmp_path: Path) -> None:
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    tasks = [
        included("broker", "teardown"),
        {"name": "Say", "ansible.builtin.debug": {"msg": "told"}, "run_once": True},
    ]
    done = played(tmp_path, {"gone": gone}, tasks, ignore_unreachable=True)
    assert "FAILED" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stdout
