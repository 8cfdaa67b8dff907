"""Filter that finds what the Python of Ansible lacks, before any host is changed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Variables = Mapping[str, Any]
_TREE = Path(__file__).parents[2]
_WHAT = f"'{_TREE}[provision]'"


def controller_faults(hostvars: Mapping[str, Variables], groups: Mapping[str, Iterable[str]]) -> list[str]:
    """`hostvars | highwater_controller_faults(groups)`: packages that a role imports on the controller."""
    members = [hostvars[host] for host in groups.get("zookeeper", [])]
    references = [hostvars[host] for host in groups.get("reference_kafka", [])]
    verifying = [each for each in members if _is_true(each.get("zookeeper_verify_from_controller", True))]
    wanted = {}
    if verifying:
        wanted["kazoo"] = "the role zookeeper (or set zookeeper_verify_from_controller: false)"
    if any(each.get("cluster_security") == "tls" for each in verifying):
        wanted["highwater"] = wanted["kazoo"]
    if any(each.get("reference_kafka_source", "maven") == "maven" for each in references):
        # What fetches Apache Kafka is a module of the bench.
        wanted["highwater"] = wanted["numpy"] = "the role reference_kafka (or set reference_kafka_source)"
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    # What is installed for the first brings the others.
    return [
        f"controller: {sys.executable} lacks {name}, needed by {wanted[name]}; {sys.executable} -m pip install {_WHAT}"
        for name in missing[:1]
    ]


def _is_true(value: Any) -> bool:
    return str(value).lower() not in ("false", "no", "off", "0")


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"highwater_controller_faults": controller_faults}
