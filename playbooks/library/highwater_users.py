#!/usr/bin/python
"""Users of a cluster who log in with SCRAM, and what each may do: made where they are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from ansible.module_utils.basic import AnsibleModule

try:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )
except ImportError:
    AdminClient = None

DOCUMENTATION = r"""
module: highwater_users
short_description: Users of a cluster who log in with SCRAM, and their ACLs
description:
  - Makes users who are missing, gives a new password to those who cannot log in with the one that is wanted, and adds
    ACLs that are missing. It takes nothing away.
  - Runs in a Python that has C(confluent-kafka), as that of a release of Highwater is.
options:
  inside_servers:
    description: Where brokers let in who may change users, with TLS and PLAIN.
    type: str
    required: true
  bootstrap_servers:
    description: Where users log in, with TLS and SCRAM-SHA-512.
    type: str
    required: true
  authority:
    description: File with the authority that signed the certificates of brokers.
    type: path
    required: true
  username:
    description: Who may change users.
    type: str
    required: true
  password:
    description: Password of O(username).
    type: str
    required: true
  users:
    description: Those who are wanted.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the user.
        type: str
        required: true
      acls:
        description: What is allowed, each with resource, name, pattern, operation and host.
        type: list
        elements: dict
        default: []
  passwords:
    description:
      - Passwords of O(users), by their names.
      - Apart from O(users), as Ansible writes what it is told into the host's journal, where it does not recognize a
        password that has a backslash or both kinds of quotes in it.
    type: dict
    required: true
  timeout_seconds:
    description: How long each answer may take.
    type: int
    default: 30
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Let alice read the orders
  highwater_users:
    inside_servers: broker1:10092
    bootstrap_servers: broker1:9092
    authority: /etc/highwater/security/authority.pem
    username: highwater-broker
    password: "{{ vault_broker }}"
    users:
      - name: alice
        acls: [{resource: topic, name: orders, pattern: literal, operation: read, host: "*"}]
    passwords:
      alice: "{{ vault_alice }}"
  vars:
    ansible_python_interpreter: /opt/highwater/broker/current/bin/python
"""

RETURN = r"""
made:
  description: Names of users who were made.
  returned: always
  type: list
  elements: str
given_passwords:
  description: Names of users whose password was changed.
  returned: always
  type: list
  elements: str
added_acls:
  description: How many ACLs were added.
  returned: always
  type: int
"""

_MECHANISM = "SCRAM-SHA-512"
_ITERATIONS = 8192


class RefusedError(Exception):
    """What cannot be done, in one line."""


def main() -> None:
    user = {
        "name": {"type": "str", "required": True},
        "acls": {"type": "list", "elements": "dict", "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "inside_servers": {"type": "str", "required": True},
            "bootstrap_servers": {"type": "str", "required": True},
            "authority": {"type": "path", "required": True},
            "username": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
            "users": {"type": "list", "elements": "dict", "required": True, "options": user},
            "passwords": {"type": "dict", "required": True, "no_log": True},
            "timeout_seconds": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    if AdminClient is None:
        module.fail_json(msg="this Python lacks confluent-kafka; run in that of a release of Highwater")
    try:
        result = ensure(module.params, is_check_mode=module.check_mode)
    except (RefusedError, KafkaException) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else error
        module.fail_json(msg=f"users of {module.params['inside_servers']}: {reason}")
    module.exit_json(changed=any(result.values()), **result)


def ensure(wanted: dict[str, Any], *, is_check_mode: bool) -> dict[str, Any]:
    timeout_s = wanted["timeout_seconds"]
    login = {"sasl.mechanism": "PLAIN", "sasl.username": wanted["username"], "sasl.password": wanted["password"]}
    admin = AdminClient({"bootstrap.servers": wanted["inside_servers"], **login, **_tls(wanted["authority"])})
    known = _known_users(admin, timeout_s)
    made = [user for user in wanted["users"] if user["name"] not in known]
    changed = [user for user in wanted["users"] if user["name"] in known and not can_log_in(user, wanted)]
    missing = _missing_acls(admin, wanted["users"], timeout_s)
    if not is_check_mode:
        # Who is new may do nothing before the ACLs are there.
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        changes = [
            UserScramCredentialUpsertion(user["name"], credential, wanted["passwords"][user["name"]].encode())
            for user in [*made, *changed]
        ]
        if missing:
            _wait(admin.create_acls(missing, request_timeout=timeout_s).values(), timeout_s)
        if changes:
            _wait(admin.alter_user_scram_credentials(changes, request_timeout=timeout_s).values(), timeout_s)
    return {
        "made": [user["name"] for user in made],
        "given_passwords": [user["name"] for user in changed],
        "added_acls": len(missing),
    }


def _tls(authority: str) -> dict[str, Any]:
    # The call that fails reports why a broker cannot be reached; the library would repeat it on standard error.
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": authority, "log_level": 0}


def can_log_in(user: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Raises RefusedError when no broker says yes or no."""
    refusals: list[Any] = []
    client = AdminClient(
        {
            "bootstrap.servers": wanted["bootstrap_servers"],
            "sasl.mechanism": _MECHANISM,
            "sasl.username": user["name"],
            "sasl.password": wanted["passwords"][user["name"]],
            "error_cb": refusals.append,
            **_tls(wanted["authority"]),
        }
    )
    # In short looks: one that was refused would wait for all of the time.
    for _ in range(wanted["timeout_seconds"]):
        try:
            client.list_topics(timeout=1)
        except KafkaException as error:
            client.poll(0)
            if any(refusal.code() == KafkaError._AUTHENTICATION for refusal in [*refusals, error.args[0]]):
                return False
        else:
            return True
    reason = refusals[-1].str() if refusals else "no answer"
    raise RefusedError(f"{wanted['bootstrap_servers']} does not say whether {user['name']} may log in: {reason}")


def _known_users(admin: Any, timeout_s: int) -> set[str]:
    told = admin.describe_user_scram_credentials(request_timeout=timeout_s).result(timeout_s)
    has_it = ScramMechanism.SCRAM_SHA_512
    return {
        name
        for name, described in told.items()
        if any(info.mechanism == has_it for info in described.scram_credential_infos)
    }


def _missing_acls(admin: Any, users: Sequence[dict[str, Any]], timeout_s: int) -> list[Any]:
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    there = {_key(acl) for acl in admin.describe_acls(every, request_timeout=timeout_s).result(timeout_s)}
    found = [_binding(user["name"], acl) for user in users for acl in user["acls"]]
    return [acl for acl in found if _key(acl) not in there]


def _binding(user: str, acl: dict[str, str]) -> Any:
    kind = "broker" if acl["resource"] == "cluster" else acl["resource"]
    return AclBinding(
        ResourceType[kind.upper()],
        acl["name"],
        ResourcePatternType[acl["pattern"].upper()],
        f"User:{user}",
        acl["host"],
        AclOperation[acl["operation"].upper()],
        AclPermissionType.ALLOW,
    )


def _key(acl: Any) -> tuple[Any, ...]:
    return (
        *(acl.restype, acl.name, acl.resource_pattern_type),
        *(acl.principal, acl.host, acl.operation, acl.permission_type),
    )


def _wait(futures: Iterable[Future[Any]], timeout_s: int) -> None:
    for future in futures:
        future.result(timeout_s)


if __name__ == "__main__":
    main()
