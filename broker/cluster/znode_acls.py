"""Who may do what with a znode, as Kafka 3.9 has it with zookeeper.set.acl.

The rules are those of kafka.zk.ZkData.defaultAcls.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from highwater.broker.settings.metadata_tree import BROKER_CONFIGS, USER_CONFIGS

_OPEN: Final = "/consumers"
"""Old consumers, which log in nowhere, write below it."""
_SENSITIVE: Final = (USER_CONFIGS, BROKER_CONFIGS, "/delegation_token/tokens")
"""Beginnings of paths, not of names."""


class ZnodeAcl(Enum):
    OPEN = "everybody may do everything"
    READABLE = "who made it may do everything, everybody may read"
    CLOSED = "its creator may do everything, others nothing"


def znode_acl(path: str) -> ZnodeAcl:
    """The ACL of a path, which is without the chroot."""
    if path == _OPEN:
        return ZnodeAcl.OPEN
    return ZnodeAcl.CLOSED if path.startswith(_SENSITIVE) else ZnodeAcl.READABLE
