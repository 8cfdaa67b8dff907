"""Plans and carries out actions, one at a time, for users whose role allows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from highwater.kafka.client.settings import ClientSettings
from highwater.monitor.actions import election, moves, offsets, reassignment, settings
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, Plan
from highwater.monitor.users import Role, User


@dataclass(frozen=True, slots=True)
class _Action:
    plan: Callable[[ActionCluster, str, Mapping[str, str]], Plan]
    carry_out: Callable[[ActionCluster, Plan], list[Outcome]]


_ACTIONS: Final = {
    "election": _Action(election.plan, election.carry_out),
    "reassignment": _Action(reassignment.plan, reassignment.carry_out),
    "reassignment-check": _Action(moves.plan_check, moves.carry_out_check),
    "reassignment-cancel": _Action(moves.plan_cancel, moves.carry_out_cancel),
    "offsets": _Action(offsets.plan, offsets.carry_out),
    "settings": _Action(settings.plan, settings.carry_out),
}
NAMES: Final = tuple(_ACTIONS)


class ChangedMeanwhileError(ActionError):
    """The cluster is not as it was when this was confirmed. `plan` is what it would be now."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("The cluster has changed since you looked: nothing was done. This is what would change now.")
        self.plan = plan


class Actions:
    """Every method may be called from any thread, asks the cluster, and raises ActionError."""

    def __init__(self, bootstrap: str, client: ClientSettings) -> None:
        """bootstrap: for the commands that are shown."""
        self._bootstrap = bootstrap
        self._client = client
        self._turn = threading.Lock()

    def plan(self, user: User, name: str, form: Mapping[str, str]) -> Plan:
        """What would change; it changes nothing."""
        _check_role(user)
        with self._cluster() as cluster:
            return _ACTIONS[name].plan(cluster, self._bootstrap, form)

    def carry_out(
        self, user: User, name: str, form: Mapping[str, str], digest: str, begins: Callable[[Plan], None]
    ) -> tuple[Plan, list[Outcome]]:
        """What was confirmed, if the cluster is as it was then. `begins` is called before the first change.

        Raises ChangedMeanwhileError.
        """
        _check_role(user)
        with self._cluster() as cluster:
            made = _ACTIONS[name].plan(cluster, self._bootstrap, form)
            if made.digest != digest:
                raise ChangedMeanwhileError(made)
            if not made.has_changes:
                raise ActionError("There is nothing to change.")
            begins(made)
            return made, _ACTIONS[name].carry_out(cluster, made)

    @contextmanager
    def _cluster(self) -> Iterator[ActionCluster]:
        if not self._turn.acquire(timeout=1):
            raise ActionError("Another action is running. Try again when it is done.")
        cluster = ActionCluster(self._client)
        try:
            yield cluster
        finally:
            cluster.close()
            self._turn.release()


def _check_role(user: User) -> None:
    """The route table has refused others already; this holds whichever way leads here."""
    if user.role < Role.OPERATOR:
        raise ActionError(f"This needs the role operator, and {user.name} has the role {user.role.title}.")
