"""The authorizer, the listener of brokers and the audit log that a configuration asks for."""

from __future__ import annotations

from typing import Final

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.security.audit import Audit
from highwater.broker.security.authorizer import Authorizer
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.kafka.acl import principal_problem

_ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_CLASSES: Final = (_ACL_AUTHORIZER, "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
"""Both decide alike; the second keeps its ACLs in KRaft, which this broker does not speak."""


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """None if every client may do everything. Raises ConfigError."""
    name = (config.string("authorizer.class.name") or "").strip()
    super_users = _super_users(config.string("super.users") or "")
    allows_everyone = config.boolean("allow.everyone.if.no.acl.found")
    if not name:
        for setting in ("super.users", "allow.everyone.if.no.acl.found"):
            if config.is_set(setting):
                raise ConfigError(
                    f"{setting} has no meaning while every client may do everything; set authorizer.class.name="
                    f"{_ACL_AUTHORIZER}, or remove {setting}"
                )
        return None
    if name == _CLASSES[1]:
        raise ConfigError(
            f"authorizer.class.name={name} is of KRaft, which this broker does not speak; use {_ACL_AUTHORIZER}"
        )
    if name != _ACL_AUTHORIZER:
        raise ConfigError(f"authorizer.class.name={name} cannot be loaded; the one that there is: {_ACL_AUTHORIZER}")
    if not super_users and not allows_everyone:
        raise ConfigError(
            "authorizer.class.name without super.users would lock everybody out, brokers too; "
            "set super.users=User:NAME;User:NAME to those who may do everything"
        )
    return Authorizer(super_users, allow_everyone_if_no_acl_found=allows_everyone)


def inside_listener_of(config: BrokerConfig) -> str | None:
    """The listener of the brokers, if it is one of its own and nothing but ACLs else keeps clients from their requests.

    A broker that runs alone has no others to listen to.
    """
    name = (config.string("inter.broker.listener.name") or "").strip().upper()
    is_exclusive = config.boolean("inter.broker.listener.exclusive")
    has_others = "," in (config.string("listeners") or "").strip(", ")
    return name if name and has_others and is_exclusive and config.is_of_a_cluster else None


def audit_of(
    config: BrokerConfig, broker_id: int, clock: Clock, scheduler: Scheduler, *, has_authorizer: bool
) -> Audit | None:
    """Its lines go to the file, or else to the broker's log. None if neither a file nor an authorizer is wanted."""
    is_wanted = has_authorizer or bool((config.string("audit.log.file") or "").strip())
    return Audit(broker_id, clock, scheduler) if is_wanted else None


def _super_users(text: str) -> list[str]:
    principals = [part.strip() for part in text.split(";") if part.strip()]
    for principal in principals:
        if problem := principal_problem(principal):
            raise ConfigError(f"super.users={text}: {principal!r} {problem}; separate several with ;")
    return principals
