"""The advised settings as files: workload, properties of clients and brokers, group variables."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from highwater.bench.workload.client_properties import Role, as_text, to_librdkafka
from highwater.bench.workload.layers import rebase_files
from highwater.bench.workload.model import Workload
from highwater.bench.workload.values import NO_PROFILE, Scalar
from highwater.common.atomic_files import write_atomically
from highwater.common.java_properties import format_properties
from highwater.studies.advise.question import Asked
from highwater.studies.advise.space import Candidate

WORKLOAD: Final = "workload.yaml"
CLIENT: Final = "client.properties"
CONSUMER: Final = "consumer.properties"
TOPIC: Final = "topic.properties"
SERVER: Final = "server.properties"
HOST: Final = "tune-profile.yaml"
GROUP_VARS: Final = "group_vars.yml"


def write_settings(asked: Asked, candidate: Candidate, folder: Path) -> list[Path]:
    """Write the files, and return their paths. A file that would say nothing is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    workload = asked.workload_of(candidate)
    name = asked.question.name

    def unset(section: str) -> list[str]:
        """What is set now, and by default in the candidate."""
        return [
            key.removeprefix(section)
            for key, present, value in zip(asked.space.keys, asked.in_use, candidate, strict=True)
            if key.startswith(section) and value is None and present is not None
        ]

    before = asked.workload_of(asked.in_use)
    dropped_profile = before.host.profile if workload.host.profile == NO_PROFILE else NO_PROFILE
    unset_variables = [f"broker_properties.{key}" for key in unset("system.config.")]
    if _processes_of(before) is not None and _processes_of(workload) is None:
        unset_variables.append("broker_processes")
    if dropped_profile != NO_PROFILE:
        unset_variables.append("tuning_profile")
    texts = {
        WORKLOAD: _workload_text(asked, candidate, folder),
        CLIENT: _client_text("producer", workload.producers.client, name, unset("producers.client.")),
        CONSUMER: _client_text("consumer", workload.consumers.client, name, unset("consumers.client.")),
        TOPIC: _properties_text(
            workload.topics.config,
            f"Topic properties, by Kafka's names: the advice of {name}.",
            unset("topics.config."),
        ),
        SERVER: _properties_text(
            getattr(workload.system, "config", {}),
            f"Properties of brokers, by Kafka's names: the advice of {name}. Lay them over those that a broker has.",
            unset("system.config."),
        ),
        HOST: _host_text(workload, name, unset("host.settings."), dropped_profile),
        GROUP_VARS: _group_vars_text(workload, name, unset_variables),
    }
    written = []
    for file, text in texts.items():
        path = folder / file
        if text:
            write_atomically(path, text)
            written.append(path)
        else:
            path.unlink(missing_ok=True)
    return written


def _workload_text(asked: Asked, candidate: Candidate, folder: Path) -> str:
    data = copy.deepcopy(asked.data_of(candidate))
    data["name"] = asked.question.name
    rebase_files(data, asked.workload_file.parent.absolute(), folder.absolute())
    head = f"# The load of {asked.question.name} with the advised settings: highwater bench run measures it.\n"
    return head + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)


def _client_text(role: Role, client: Mapping[str, Scalar], name: str, unset: Sequence[str]) -> str:
    properties = to_librdkafka(role, client)
    what = f"Properties of {role}s, by librdkafka's names: the advice of {name}."
    return _properties_text(properties, what, unset)


def _properties_text(properties: Mapping[str, Scalar], comment: str, unset: Sequence[str]) -> str:
    if not properties and not unset:
        return ""
    return (
        f"# {comment}\n"
        + _removal_text(unset)
        + format_properties({key: as_text(value) for key, value in properties.items()})
    )


def _removal_text(unset: Sequence[str]) -> str:
    return f"# Remove what is set now, as the default is advised: {', '.join(unset)}\n" if unset else ""


def _processes_of(workload: Workload) -> int | None:
    found: int | None = getattr(workload.system, "processes", None)
    return found


def _host_text(workload: Workload, name: str, unset: Sequence[str], dropped_profile: str) -> str:
    """The section `host` of a workload, which `bench run` applies; `tune apply` applies a profile as well.

    dropped_profile: that is in use, and none is advised; NO_PROFILE if there is no such one.
    """
    removal = _removal_text(unset)
    if dropped_profile != NO_PROFILE:
        removal += f"# Take back the profile {dropped_profile}, as none is advised: highwater tune rollback\n"
    if workload.host.is_left_alone:
        return removal
    host = workload.host.model_dump(mode="json", exclude_defaults=True)
    lines = [f"# Settings of the host: the advice of {name}. A workload file takes them with include:."]
    if workload.host.profile != NO_PROFILE:
        lines.append(f"# For good: highwater tune apply --profile {workload.host.profile}")
    if workload.host.settings:
        lines.append("# Single settings are for good where the host's own configuration has them (sysctl.d, udev).")
    return "\n".join(lines) + "\n" + removal + yaml.safe_dump({"host": host}, sort_keys=False)


def _group_vars_text(workload: Workload, name: str, unset: Sequence[str]) -> str:
    """Variables of the playbooks' groups of brokers."""
    found: dict[str, Any] = {}
    config = getattr(workload.system, "config", {})
    if config:
        found["broker_properties"] = {key: as_text(value) for key, value in config.items()}
    if (processes := _processes_of(workload)) is not None:
        found["broker_processes"] = processes
    if workload.host.profile != NO_PROFILE:
        found["tuning_profile"] = workload.host.profile
    if not found and not unset:
        return ""
    head = f"---\n# For group_vars/brokers.yml of an inventory: the advice of {name}.\n"
    return head + _removal_text(unset) + (yaml.safe_dump(found, sort_keys=False) if found else "")
