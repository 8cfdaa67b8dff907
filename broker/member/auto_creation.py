"""Asks the controller to create topics on first use."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.controller_channel import ControllerChannel
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.topics.internal_topic import plan_of
from highwater.kafka.protocol.apis import CREATE_TOPICS
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.topic_names import topic_name_problem

_logger = logging.getLogger(__name__)

_VERSION: Final = 7
_REFUSALS_KEPT: Final = 1000


class ClusterAutoCreation:
    """Implements `AutoCreation`."""

    def __init__(self, config: BrokerConfig, controller: ControllerChannel) -> None:
        self._config = config
        self._controller = controller
        self._timeout_ms = config.integer("request.timeout.ms")
        self._under_way: set[str] = set()
        self._refused: dict[str, ErrorCode] = {}
        """The controller's last errors by topic, for the next request, which also asks the controller again."""

    def is_under_way(self, name: str) -> bool:
        return name in self._under_way

    def create(self, names: Iterable[str]) -> Mapping[str, ErrorCode]:
        outcomes: dict[str, ErrorCode] = {}
        wanted: list[Answer] = []
        for name in names:
            if topic_name_problem(name) is not None:
                outcomes[name] = ErrorCode.invalid_topic_exception
                continue
            outcomes[name] = self._refused.pop(name, ErrorCode.leader_not_available)
            if name not in self._under_way:
                self._under_way.add(name)
                wanted.append(self._plan(name))
        if wanted:
            self._ask(wanted)
        return outcomes

    def _plan(self, name: str) -> Answer:
        config = self._config
        plan = plan_of(name, config)
        if plan is None:
            partition_count = config.integer("num.partitions")
            replication_factor = config.integer("default.replication.factor")
            overrides: Mapping[str, str | None] = {}
        else:
            partition_count, replication_factor, overrides = plan
        return {
            "name": name,
            "num_partitions": partition_count,
            "replication_factor": replication_factor,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in overrides.items()],
        }

    def _ask(self, wanted: list[Answer]) -> None:
        def answered(answer: Any | None) -> None:
            self._under_way.difference_update(topic["name"] for topic in wanted)
            for told in () if answer is None else answer.topics:
                error = ErrorCode(told.error_code)
                if error not in _IT_IS_THERE:
                    _logger.warning("topic %s is not made for its first user: %s", told.name, error.name)
                    if len(self._refused) < _REFUSALS_KEPT:
                        self._refused[told.name] = error

        self._controller.ask(
            CREATE_TOPICS,
            _VERSION,
            {"topics": wanted, "timeout": self._timeout_ms, "validate_only": False},
            answered,
            is_refused=_is_refused,
            timeout_ms=self._timeout_ms,
        )


_IT_IS_THERE: Final = (ErrorCode.none, ErrorCode.topic_already_exists, ErrorCode.request_timed_out)
"""Or soon will be."""


def _is_refused(answer: Any) -> bool:
    return any(told.error_code == ErrorCode.not_controller for told in answer.topics)
