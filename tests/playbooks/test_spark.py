"""What role spark refuses before it changes anything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.playbooks.modules import TREE
from tests.playbooks.playing import play, play_part, succeeded

# As `-e name=value` gives them.
NUMBERS = {"spark_worker_memory_mib": "512", "spark_daemon_memory_mib": "64"}


@pytest.mark.slow
def test_an_address_at_which_no_other_host_finds_spark_is_refused(tmp_path: Path) -> None:
    """That of a name which the host itself has at 127.0.1.1, as Debian's installer writes it."""
    addresses = {"good": "10.0.0.1", "loopback": "127.0.1.1", "six": "fd00::1"}
    inventory = {
        "hosts": {name: {"spark_address": address} for name, address in addresses.items()},
        "children": {"spark_master": {"hosts": {"good": None}}, "spark_workers": {"hosts": dict.fromkeys(addresses)}},
    }
    done = play_part(tmp_path, "spark", "assert", inventory, **NUMBERS)
    said = " ".join((done.stdout + done.stderr).split())
    assert re.search("good : ok=.* failed=0 ", said)
    assert "loopback: spark_address is 127.0.1.1, which the host itself has at 127.0.1.1, where no other host" in said
    assert "six: spark_address is fd00::1, which the host itself has at no IPv4 address" in said


@pytest.mark.slow
@pytest.mark.parametrize(("of_the_master", "port"), [({"spark_master_port": 7777}, 7777), ({}, 7077)])
def test_workers_find_the_master_at_the_port_that_is_set_for_it(
    tmp_path: Path, of_the_master: dict[str, int], port: int
) -> None:
    groups = {
        "spark_master": {"hosts": {"m": None}, "vars": of_the_master},
        "spark_workers": {"hosts": {"m": None, "w": None}},
    }
    here = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    source = TREE / "roles/spark/templates/spark.service.j2"
    master = "lookup('template', source, convert_data=false) | regex_findall('spark://.*')"
    tasks = [
        {"include_role": {"name": "spark", "tasks_from": "assert", "public": True}},
        {
            "debug": {"msg": f"{{{{ inventory_hostname }}}} has {{{{ {master} }}}}"},
            "vars": {"__spark_service": "worker", "source": str(source)},
        },
    ]
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": here, "children": groups}}))
    (tmp_path / "part.yml").write_text(yaml.safe_dump([{"hosts": "all", "tasks": tasks}]))
    files = ("-i", tmp_path / "hosts.yml", tmp_path / "part.yml")
    given = {**NUMBERS, "spark_address": "10.0.0.1", "spark_master_address": "10.0.0.1"}
    told = succeeded(play(tmp_path, *files, "-e", json.dumps(given))).stdout
    for host in ("m", "w"):
        assert f"{host} has ['spark://10.0.0.1:{port}']" in told
