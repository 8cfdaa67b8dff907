"""The assignors of this broker, by the names that members ask for."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from highwater.broker.group.assignors.assignor import Assignor, GroupToAssign, Target
from highwater.broker.group.assignors.heterogeneous import assign_heterogeneous
from highwater.broker.group.assignors.homogeneous import assign_homogeneous
from highwater.broker.group.assignors.range import assign_ranges


def assign_uniformly(group: GroupToAssign) -> Generator[None, None, Target]:
    """Shares of members differ as little as possible, then as few partitions as possible move."""
    return assign_homogeneous(group) if group.is_homogeneous else assign_heterogeneous(group)


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
