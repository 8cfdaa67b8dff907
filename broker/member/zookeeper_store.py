"""The settings of a cluster: in ZooKeeper below /config, and a copy in memory.

A change writes the settings and then a notification below /config/changes, which names to every broker the
settings to read again (kafka.server.ZkConfigManager). A new session reads all: changes before it may have been missed.

Kafka 3.9 complains about a notification of settings that it does not know. A change of the settings of groups, or of
subscriptions to metrics of clients, therefore writes no notification: it sets the znode above them, which every broker
of ours watches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Clock
from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import (
    Children,
    Create,
    Delete,
    Exists,
    Get,
    NodeData,
    Request,
    Set,
    WatchEvent,
    ZooKeeper,
    ZooKeeperError,
    run,
)
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.metadata_tree import OWN_CONFIGS
from highwater.broker.settings.quota_entities import Entity, Quotas
from highwater.broker.settings.store import ConfigChange
from highwater.kafka.login.scram import Credentials
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

NOTIFICATION_LIFETIME_MS: Final = 15 * 60 * 1000
_ATTEMPTS: Final = 10
"""The most attempts to change settings that others change at the same time."""

Configs = Mapping[str, Mapping[str, str]]
"""Settings by the path of their znode; a missing znode has empty settings."""


class ZooKeeperStore:
    """Implements `SettingsStore`, and `SessionPart`: it follows the changes of other brokers during a session."""

    def __init__(self, zookeeper: ZooKeeper, clock: Clock, cluster_id: str) -> None:
        """The settings are empty until `load` has run."""
        self.cluster_id = cluster_id
        self.when_changed: list[Callable[[str], None]] = []
        self._zookeeper = zookeeper
        self._clock = clock
        self._configs: dict[str, Mapping[str, str]] = {}
        self._client_quotas: Quotas = {}
        self._scram_credentials: Mapping[str, Credentials] = {}
        self._latest_notification = -1

    # Reading

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self._configs.get(metadata_tree.topic_config_path(topic), {})

    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        prefix = f"{metadata_tree.BROKER_CONFIGS}/"
        names = {path: path.removeprefix(prefix) for path in self._configs if path.startswith(prefix)}
        return {
            "" if name == metadata_tree.DEFAULT_ENTITY else name: self._configs[path] for path, name in names.items()
        }

    def client_quotas(self) -> Quotas:
        return self._client_quotas

    def own_configs(self, parent: str) -> Mapping[str, Mapping[str, str]]:
        return metadata_tree.own_configs_of(self._configs, parent)

    def scram_credentials(self) -> Mapping[str, Credentials]:
        return self._scram_credentials

    def read_topic_configs(self, topics: Iterable[str], then: Callable[[bool], None]) -> None:
        def read(configs: Configs | ZooKeeperError) -> None:
            if isinstance(configs, ZooKeeperError):
                then(False)
            else:
                self._take_up(configs)
                then(True)

        run(self._zookeeper, _read([metadata_tree.topic_config_path(topic) for topic in topics]), read)

    # Changing

    def change_configs(
        self, changes: Mapping[str, ConfigChange], then: Callable[[dict[str, Problem | None]], None]
    ) -> None:
        def changed(outcome: dict[str, Mapping[str, str] | Problem]) -> None:
            written = {path: config for path, config in outcome.items() if not isinstance(config, Problem)}
            self._take_up(written)
            then({path: config if isinstance(config, Problem) else None for path, config in outcome.items()})

        run(self._zookeeper, _change(changes), changed)

    # Following

    def session_began(self, broker_epoch: int) -> None:
        def loaded(error: ZooKeeperError | None) -> None:
            if error is not None and error is not ZooKeeperError.SESSION_EXPIRED:
                _logger.error("the settings in ZooKeeper cannot be read: %s", error.value)

        run(self._zookeeper, self.load(), loaded)

    def session_ended(self) -> None:
        """Keep the known settings in force."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        if path == znodes.CONFIG_CHANGES:
            run(self._zookeeper, self._follow())
        elif path in OWN_CONFIGS:
            run(self._zookeeper, self._follow_own(path))

    def load(self) -> Generator[Sequence[Request], list[Any], ZooKeeperError | None]:
        """Set watches for later changes, then read all settings."""
        notifications, *_ = yield [
            Children(znodes.CONFIG_CHANGES, watch=True),
            *(Exists(parent, watch=True) for parent in OWN_CONFIGS),
        ]
        if isinstance(notifications, ZooKeeperError):
            return notifications
        parents = (
            metadata_tree.TOPIC_CONFIGS,
            metadata_tree.BROKER_CONFIGS,
            metadata_tree.CLIENT_CONFIGS,
            metadata_tree.USER_CONFIGS,
            metadata_tree.IP_CONFIGS,
            *OWN_CONFIGS,
        )
        paths = yield from _children_of(parents)
        users = [f"{path}/clients" for path in paths if path.startswith(f"{metadata_tree.USER_CONFIGS}/")]
        paths += yield from _children_of(users)
        configs = yield from _read(paths)
        if isinstance(configs, ZooKeeperError):
            return configs
        # A notification of removed settings may have been missed.
        gone: Configs = {path: {} for path in self._configs if path not in configs}
        self._take_up({**configs, **gone})
        self._latest_notification = max(map(znodes.sequence_number, notifications), default=-1)
        return None

    def _follow(self) -> Generator[Sequence[Request], list[Any], None]:
        (notifications,) = yield [Children(znodes.CONFIG_CHANGES, watch=True)]
        if isinstance(notifications, ZooKeeperError):
            return
        names = sorted(notifications, key=znodes.sequence_number)
        news = [name for name in names if znodes.sequence_number(name) > self._latest_notification]
        if news:
            self._latest_notification = znodes.sequence_number(news[-1])
        nodes = yield [Get(f"{znodes.CONFIG_CHANGES}/{name}") for name in names]
        told = {name: node for name, node in zip(names, nodes, strict=True) if isinstance(node, NodeData)}
        paths: dict[str, None] = {}
        for name in news:
            if name in told:
                try:
                    paths[znodes.read(told[name].data, znodes.parse_config_change)] = None
                except ValueError as error:
                    _logger.error("the notification %s/%s tells nothing: %s", znodes.CONFIG_CHANGES, name, error)
        configs = yield from _read(list(paths))
        if not isinstance(configs, ZooKeeperError):
            self._take_up(configs)
        due_ms = self._clock.now_ms() - NOTIFICATION_LIFETIME_MS
        old = [name for name, node in told.items() if 0 < node.stat.created_ms < due_ms]
        if old:
            yield [Delete(f"{znodes.CONFIG_CHANGES}/{name}") for name in old]

    def _follow_own(self, parent: str) -> Generator[Sequence[Request], list[Any], None]:
        yield [Exists(parent, watch=True)]
        known = [path for path in self._configs if path.startswith(f"{parent}/")]
        paths = yield from _children_of([parent])
        configs = yield from _read(list(dict.fromkeys([*known, *paths])))
        if not isinstance(configs, ZooKeeperError):
            self._take_up(configs)

    def _take_up(self, configs: Configs) -> None:
        changed = [path for path, config in configs.items() if config != self._configs.get(path, {})]
        for path in changed:
            if configs[path]:
                self._configs[path] = configs[path]
            else:
                del self._configs[path]
        entities = {path: entity for path in changed if (entity := metadata_tree.parse_quota_path(path)) is not None}
        if entities:
            self._take_up_entities()
        for path in changed:
            for tell in self.when_changed:
                tell(path)

    def _take_up_entities(self) -> None:
        quotas: dict[Entity, Mapping[str, float]] = {}
        credentials: dict[str, Credentials] = {}
        for path, config in self._configs.items():
            entity = metadata_tree.parse_quota_path(path)
            if entity is None:
                continue
            try:
                if limits := metadata_tree.parse_quotas(metadata_tree.config_value(config)):
                    quotas[entity] = limits
                if entity.client_id is None and isinstance(entity.user, str):
                    known = metadata_tree.parse_scram_credentials(metadata_tree.config_value(config))
                    if known:
                        credentials[entity.user] = known
            except ValueError as error:
                _logger.error("%s in ZooKeeper is not used: %s", path, error)
        self._client_quotas = quotas
        self._scram_credentials = credentials


def _children_of(parents: Sequence[str]) -> Generator[Sequence[Request], list[Any], list[str]]:
    """Return the paths of the children of these nodes; a missing parent has none."""
    if not parents:
        return []
    found = yield [Children(parent) for parent in parents]
    return [
        f"{parent}/{name}"
        for parent, names in zip(parents, found, strict=True)
        if not isinstance(names, ZooKeeperError)
        for name in names
    ]


def _read(paths: Sequence[str]) -> Generator[Sequence[Request], list[Any], Configs | ZooKeeperError]:
    """Return the settings at these paths; damaged ones are logged and left out."""
    configs: dict[str, Mapping[str, str]] = {}
    nodes = (yield [Get(path) for path in paths]) if paths else []
    for path, node in zip(paths, nodes, strict=True):
        if isinstance(node, NodeData) or node is ZooKeeperError.NO_NODE:
            try:
                configs[path] = _config_of(node)
            except ValueError as error:
                _logger.error("%s in ZooKeeper is not used: %s", path, error)
        else:
            return node  # type: ignore[no-any-return]
    return configs


def _config_of(node: NodeData | ZooKeeperError) -> Mapping[str, str]:
    # A user without settings of his own may be there for those of his clients, without data.
    return znodes.read(node.data, metadata_tree.parse_config) if isinstance(node, NodeData) and node.data else {}


def _change(
    changes: Mapping[str, ConfigChange],
) -> Generator[Sequence[Request], list[Any], dict[str, Mapping[str, str] | Problem]]:
    """Change settings, each by itself, without overwriting concurrent changes."""
    outcome: dict[str, Mapping[str, str] | Problem] = {}
    paths = list(changes)
    for _ in range(_ATTEMPTS):
        nodes = yield [Get(path) for path in paths]
        wanted: dict[str, Mapping[str, str]] = {}
        requests: dict[str, Request] = {}
        for path, node in zip(paths, nodes, strict=True):
            config = _changed(node, changes[path])
            if isinstance(config, Problem):
                outcome[path] = config
                continue
            wanted[path] = config
            requests[path] = yield from _request_for(path, node, config)
        paths = []
        for (path, request), result in zip(requests.items(), (yield list(requests.values())), strict=True):
            if not isinstance(result, ZooKeeperError):
                outcome[path] = wanted[path]
            elif result in (ZooKeeperError.SESSION_EXPIRED, ZooKeeperError.REFUSED, ZooKeeperError.MALFORMED):
                outcome[path] = _not_written(path, result)
            elif isinstance(request, Exists):
                outcome[path] = wanted[path]  # nothing was there, and nothing shall be
            else:
                paths.append(path)
        if not paths:
            break
    outcome |= {path: _not_written(path, ZooKeeperError.BAD_VERSION) for path in paths}
    notices = dict.fromkeys(_notice_of(path) for path, config in outcome.items() if not isinstance(config, Problem))
    if notices:
        yield list(notices)
    return {path: outcome[path] for path in changes}


def _notice_of(path: str) -> Request:
    """How brokers hear that settings changed."""
    own = metadata_tree.parse_own_config_path(path)
    if own is not None:
        return Set(own[0], b"")
    return Create(znodes.CONFIG_CHANGE_PREFIX, znodes.encode(znodes.config_change_value(path)), is_sequential=True)


def _changed(node: NodeData | ZooKeeperError, change: ConfigChange) -> Mapping[str, str] | Problem:
    if isinstance(node, ZooKeeperError) and node is not ZooKeeperError.NO_NODE:
        return Problem(ErrorCode.unknown_server_error, f"ZooKeeper: {node.value}")
    try:
        return change(_config_of(node))
    except ValueError as error:
        return Problem(ErrorCode.unknown_server_error, f"What is in ZooKeeper is damaged: {error}")


def _request_for(
    path: str, node: NodeData | ZooKeeperError, config: Mapping[str, str]
) -> Generator[Sequence[Request], list[Any], Request]:
    may_go = metadata_tree.parse_quota_path(path) is not None or metadata_tree.parse_own_config_path(path) is not None
    if isinstance(node, NodeData):
        if may_go and not config and not ((yield [Children(path)])[0]):
            return Delete(path, node.stat.version)
        return Set(path, znodes.encode(metadata_tree.config_value(config)), node.stat.version)
    if may_go and not config:
        return Exists(path)
    # The clients of a user stand below him.
    parents = [parent for parent in (znodes.parent_of(znodes.parent_of(path)), znodes.parent_of(path)) if parent != "/"]
    yield [Create(parent) for parent in parents]
    return Create(path, znodes.encode(metadata_tree.config_value(config)))


def _not_written(path: str, error: ZooKeeperError) -> Problem:
    _logger.error("cannot write %s in ZooKeeper: %s", path, error.value)
    return Problem(ErrorCode.unknown_server_error, f"The broker could not write to ZooKeeper: {error.value}")
