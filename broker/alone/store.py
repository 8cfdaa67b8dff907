"""The metadata store of a broker that runs alone: one JSON file in its log directory.

The file maps Kafka's znode paths to Kafka 3.9's values, one on each line, so that it reads like a ZooKeeper tree and
shares its serialisers. It is replaced as a whole (temporary file, fsync, rename), so a change is there whole or not at
all.

The state of the partitions is not stored: a broker that runs alone leads every partition and is its only in-sync
replica. Each start counts as an election of it as the controller and of every leader, so the leader epoch follows from
`/controller_epoch`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from highwater.broker.features import (
    SERVED,
    UNKNOWN_EPOCH,
    FeatureChange,
    Features,
    Finalised,
    Supported,
    first_levels,
    serves,
)
from highwater.broker.log.checkpoint import MalformedFile
from highwater.broker.log.files import FileOperations, write_durably
from highwater.broker.security.authorizer import Entries
from highwater.broker.settings import acl_tree, metadata_tree
from highwater.broker.settings.acl_store import AclChange
from highwater.broker.settings.metadata_tree import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock
from highwater.broker.settings.quota_entities import Entity, Quotas
from highwater.broker.settings.store import ConfigChange, MetadataError
from highwater.broker.slices import Steps, Work, run
from highwater.broker.topics.topic import TopicRecord
from highwater.kafka.acl import Resource
from highwater.kafka.login.scram import Credentials
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V", bound=Mapping[Any, Any])

FILE_NAME: Final = "embedded-metadata.json"
_NO_REAL_EPOCH: Final = 2**30
"""Nothing starts so often: a log with such a leader epoch is damaged."""


class EmbeddedMetadataStore:
    """Implements `SettingsStore` and `FeatureStore`, and has the topics too.

    What is called back, or ends, has made its change durable.

    The caller holds the directory's lock.
    """

    def __init__(self, files: FileOperations, directory: Path, cluster_id: str, supported: Supported = SERVED) -> None:
        """Raises MetadataError when the file is there and cannot be understood, or belongs to another cluster."""
        self.cluster_id = cluster_id
        self._files = files
        self._path = directory / FILE_NAME
        self._topics: dict[str, TopicRecord] = {}
        self._lines: dict[str, tuple[TopicRecord, str]] = {}
        """What the file has of each topic: thousands of partitions, of which most changes of the file touch none."""
        self._marked: set[str] = set()
        self._broker_configs: dict[str, Mapping[str, str]] = {}
        self._client_quotas: dict[Entity, Mapping[str, float]] = {}
        self._scram_credentials: dict[str, Credentials] = {}
        self._own_configs: dict[str, Mapping[str, str]] = {}
        self._acls: dict[Resource, Entries] = {}
        self._producer_id_block: ProducerIdBlock | None = None
        self.features = Features(supported)
        self._writing: _Writing | None = None
        """A write that may be under way in a thread; another one waits for it."""
        self.run_steps: Callable[[Steps[None]], None] = run
        """How `change_configs` does its work: all of it at once, until a running broker has threads for the disk."""
        self.controller_epoch = 0
        self.when_changed: list[Callable[[str], None]] = []
        self._is_new = not files.exists(self._path)
        if not self._is_new:
            self._load()

    def _load(self) -> None:
        path = ""
        try:
            tree = json.loads(self._files.read(self._path))
            if not isinstance(tree, dict):
                raise ValueError("it does not hold paths and their values")
            path = metadata_tree.CLUSTER_ID
            cluster_id = metadata_tree.parse_cluster_id(tree[path])
            path = metadata_tree.CONTROLLER_EPOCH
            self.controller_epoch = metadata_tree.parse_controller_epoch(tree[path])
            for path, value in tree.items():
                self._load_znode(path, value, tree)
        except OSError as error:
            raise MetadataError(f"cannot read {self._path}: {error.strerror}") from None
        except metadata_tree.NewerZnode as error:
            raise MetadataError(f"{self._path}: {path}: {error}; start the newer broker that wrote it") from None
        except (ValueError, KeyError, TypeError, AttributeError, MalformedFile) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            where = f"{path}: " if path else ""
            raise MetadataError(f"{self._path} is damaged: {where}{what}; restore it from a copy") from None
        if cluster_id != self.cluster_id:
            raise MetadataError(
                f"{self._path} belongs to cluster {cluster_id}, and its directory to cluster {self.cluster_id}; "
                "put the file back where it comes from"
            )

    def _load_znode(self, path: str, value: object, tree: Mapping[str, Any]) -> None:
        parent, _, name = path.rpartition("/")
        if parent == metadata_tree.TOPICS:
            topic_id, assignment = metadata_tree.parse_topic(value)
            config_path = f"{metadata_tree.TOPIC_CONFIGS}/{name}"
            config = metadata_tree.parse_config(tree[config_path]) if config_path in tree else {}
            self._topics[name] = TopicRecord(name, topic_id, assignment, config)
        elif parent == metadata_tree.DELETE_TOPICS:
            self._marked.add(name)
        elif parent == metadata_tree.BROKER_CONFIGS:
            self._broker_configs["" if name == metadata_tree.DEFAULT_ENTITY else name] = metadata_tree.parse_config(
                value
            )
        elif metadata_tree.parse_own_config_path(path) is not None:
            self._own_configs[path] = metadata_tree.parse_config(value)
        elif (entity := metadata_tree.parse_quota_path(path)) is not None:
            if limits := metadata_tree.parse_quotas(value):
                self._client_quotas[entity] = limits
            if credentials := metadata_tree.parse_scram_credentials(value):
                self._scram_credentials[_user(entity)] = credentials
        elif (resource := acl_tree.parse_acl_path(path)) is not None:
            self._acls[resource] = acl_tree.parse_acl(value)
        elif path == metadata_tree.PRODUCER_ID_BLOCK:
            self._producer_id_block = metadata_tree.parse_producer_id_block(value)
        elif path == metadata_tree.FEATURES:
            self._load_features(metadata_tree.parse_features(value))
        elif (
            path not in (metadata_tree.CLUSTER_ID, metadata_tree.CONTROLLER_EPOCH)
            and parent != metadata_tree.TOPIC_CONFIGS
        ):
            # It would be lost with the next write.
            raise metadata_tree.NewerZnode("this broker does not know what that is")

    def _load_features(self, finalised: Finalised) -> None:
        for name, level in finalised.levels.items():
            if not serves(self.features.supported, name, level):
                raise metadata_tree.NewerZnode(f"this broker does not support level {level} of {name}")
        self.features.take_up(finalised)

    def begin_epoch(self, latest_leader_epoch: int = -1, now_ms: int = 0) -> None:
        """Become the controller once more; the first write of a run. Raises MetadataError when it fails.

        A new directory begins with all levels of features that this broker supports, at the wall clock time `now_ms`.
        `latest_leader_epoch` is the latest in the logs, and this run's is above it, though the file was restored from a
        copy, or made for the logs of another broker: clients and transactions never go back to an epoch.
        """
        last_epoch = self.controller_epoch
        if last_epoch <= latest_leader_epoch < _NO_REAL_EPOCH:
            last_epoch = latest_leader_epoch + 1
            _logger.warning(
                "%s has controller epoch %d, and the logs have leader epoch %d: it is older than they are",
                self._path,
                self.controller_epoch,
                latest_leader_epoch,
            )
        has_logs = latest_leader_epoch >= 0
        begins_with = first_levels(self.features.supported, now_ms) if self._is_new and not has_logs else None
        try:
            self._commit(controller_epoch=last_epoch + 1, finalised=begins_with)
        except OSError as error:
            raise MetadataError(f"cannot write {self._path}: {error.strerror}") from error

    @property
    def leader_epoch(self) -> int:
        """This broker became the leader of all its partitions when its present run began."""
        return self.controller_epoch - 1

    def topics(self) -> Iterable[TopicRecord]:
        """All topics, those marked for deletion too."""
        return self._topics.values()

    def topics_marked_for_deletion(self) -> Iterable[str]:
        return sorted(self._marked)

    def put_topics(self, topics: Iterable[TopicRecord]) -> None:
        """Create topics, or replace what is known of them; together or not at all."""
        run(self.putting_topics(topics))

    def putting_topics(self, topics: Iterable[TopicRecord]) -> Steps[None]:
        """The same in steps, of which one waits for the disk; so do the other two."""
        self._settle()
        changed = {topic.name: topic._replace(config=dict(topic.config)) for topic in topics}
        yield from self._committing(topics=self._topics | changed)

    def mark_for_deletion(self, name: str) -> None:
        """Begin to delete a topic. The mark stands until `remove_topic`, so a broker that died in between resumes."""
        run(self.marking_for_deletion(name))

    def marking_for_deletion(self, name: str) -> Steps[None]:
        self._settle()
        yield from self._committing(marked=self._marked | {name})

    def remove_topic(self, name: str) -> None:
        run(self.removing_topic(name))

    def removing_topic(self, name: str) -> Steps[None]:
        self._settle()
        topics = {key: topic for key, topic in self._topics.items() if key != name}
        yield from self._committing(topics=topics, marked=self._marked - {name})

    def topic_config(self, topic: str) -> Mapping[str, str]:
        record = self._topics.get(topic)
        return {} if record is None else record.config

    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        return self._broker_configs

    def client_quotas(self) -> Quotas:
        return self._client_quotas

    def own_configs(self, parent: str) -> Mapping[str, Mapping[str, str]]:
        return metadata_tree.own_configs_of(self._own_configs, parent)

    def scram_credentials(self) -> Mapping[str, Credentials]:
        return self._scram_credentials

    @property
    def acls(self) -> Mapping[Resource, Entries]:
        return self._acls

    def changing_acls(self, changes: Mapping[Resource, AclChange]) -> Steps[None]:
        """Change the ACLs of these resources together; without entries a resource has none. Raises OSError."""
        before: dict[Resource, Entries] = {}
        changed: dict[Resource, Entries] = {}
        for resource, change in changes.items():
            before[resource] = self._acls.get(resource, frozenset())
            changed[resource] = change(before[resource])
            yield None
        self._settle()
        for resource, change in changes.items():
            present = self._acls.get(resource, frozenset())
            if present != before[resource]:
                changed[resource] = change(present)
        after = {resource: entries for resource, entries in (self._acls | changed).items() if entries}
        if after != self._acls:
            yield from self._committing(acls=after)

    def change_configs(
        self, changes: Mapping[str, ConfigChange], then: Callable[[dict[str, Problem | None]], None]
    ) -> None:
        """All that can be changed is changed together, or nothing."""
        self.run_steps(self._changing_configs(changes, then))

    def _changing_configs(
        self, changes: Mapping[str, ConfigChange], then: Callable[[dict[str, Problem | None]], None]
    ) -> Steps[None]:
        self._settle()
        results: dict[str, Problem | None] = {}
        topics, broker_configs = dict(self._topics), dict(self._broker_configs)
        quotas, credentials = dict(self._client_quotas), dict(self._scram_credentials)
        own_configs = dict(self._own_configs)
        for path, change in changes.items():
            config = change(self._config(path))
            results[path] = config if isinstance(config, Problem) else None
            if isinstance(config, Problem):
                continue
            name = path.rpartition("/")[2]
            if path.startswith(f"{metadata_tree.TOPIC_CONFIGS}/"):
                topics[name] = topics[name]._replace(config=dict(config))
            elif path.startswith(f"{metadata_tree.BROKER_CONFIGS}/"):
                broker_configs["" if name == metadata_tree.DEFAULT_ENTITY else name] = dict(config)
            elif metadata_tree.parse_own_config_path(path) is not None:
                _put(own_configs, path, dict(config))
            else:
                entity = metadata_tree.parse_quota_path(path)
                assert entity is not None, path
                _put(quotas, entity, metadata_tree.parse_quotas(metadata_tree.config_value(config)))
                if entity.client_id is None:
                    _put(
                        credentials,
                        _user(entity),
                        metadata_tree.parse_scram_credentials(metadata_tree.config_value(config)),
                    )
        changed = [path for path, problem in results.items() if problem is None]
        if changed:
            try:
                yield from self._committing(
                    topics=topics,
                    broker_configs=broker_configs,
                    client_quotas=quotas,
                    scram_credentials=credentials,
                    own_configs=own_configs,
                )
            except OSError as error:
                _logger.error("cannot keep the settings of %s: %s", ", ".join(changed), error)
                failed = Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
                results |= dict.fromkeys(changed, failed)
                changed = []
        for path in changed:
            for tell in self.when_changed:
                tell(path)
        then(results)

    def _config(self, path: str) -> Mapping[str, str]:
        name = path.rpartition("/")[2]
        if path.startswith(f"{metadata_tree.TOPIC_CONFIGS}/"):
            return self.topic_config(name)
        if path.startswith(f"{metadata_tree.BROKER_CONFIGS}/"):
            return self._broker_configs.get("" if name == metadata_tree.DEFAULT_ENTITY else name, {})
        if metadata_tree.parse_own_config_path(path) is not None:
            return self._own_configs.get(path, {})
        entity = metadata_tree.parse_quota_path(path)
        assert entity is not None, path
        credentials = {} if entity.client_id is not None else self._scram_credentials.get(_user(entity), {})
        return metadata_tree.quota_config(self._client_quotas.get(entity, {})) | metadata_tree.scram_config(credentials)

    def read_topic_configs(self, topics: Iterable[str], then: Callable[[bool], None]) -> None:
        then(True)

    def next_producer_id_block(self, broker_id: int) -> ProducerIdBlock:
        """A block of producer ids that nobody had before and nobody else will get. Raises OSError."""
        return run(self.taking_producer_id_block(broker_id))

    def taking_producer_id_block(self, broker_id: int) -> Steps[ProducerIdBlock]:
        self._settle()
        first = 0 if self._producer_id_block is None else self._producer_id_block.last + 1
        block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
        yield from self._committing(producer_id_block=block)
        return block

    def change_features(self, change: FeatureChange, then: Callable[[Problem | None], None]) -> None:
        self.run_steps(self._changing_features(change, then))

    def _changing_features(self, change: FeatureChange, then: Callable[[Problem | None], None]) -> Steps[None]:
        self._settle()
        outcome = change(self.features.finalised, {})
        if isinstance(outcome, Finalised):
            try:
                if outcome != self.features.finalised:
                    yield from self._committing(finalised=outcome)
            except OSError as error:
                _logger.error("cannot keep the levels of features: %s", error)
                outcome = Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
        then(outcome if isinstance(outcome, Problem) else None)

    def _commit(self, **changes: Any) -> None:
        """Write the state with these changes, then make them ours: what is remembered never runs ahead of the disk."""
        run(self._committing(**changes))

    def _committing(
        self,
        *,
        controller_epoch: int | None = None,
        topics: dict[str, TopicRecord] | None = None,
        marked: set[str] | None = None,
        broker_configs: dict[str, Mapping[str, str]] | None = None,
        client_quotas: dict[Entity, Mapping[str, float]] | None = None,
        scram_credentials: dict[str, Credentials] | None = None,
        own_configs: dict[str, Mapping[str, str]] | None = None,
        acls: dict[Resource, Entries] | None = None,
        producer_id_block: ProducerIdBlock | None = None,
        finalised: Finalised | None = None,
    ) -> Steps[None]:
        """Do what `_commit` does; nothing else is written between its steps, as every write begins with `_settle`."""
        controller_epoch = self.controller_epoch if controller_epoch is None else controller_epoch
        topics = self._topics if topics is None else topics
        marked = self._marked if marked is None else marked
        broker_configs = self._broker_configs if broker_configs is None else broker_configs
        client_quotas = self._client_quotas if client_quotas is None else client_quotas
        scram_credentials = self._scram_credentials if scram_credentials is None else scram_credentials
        own_configs = self._own_configs if own_configs is None else own_configs
        acls = self._acls if acls is None else acls
        producer_id_block = self._producer_id_block if producer_id_block is None else producer_id_block
        finalised = self.features.finalised if finalised is None else finalised
        tree: dict[str, Any] = {
            metadata_tree.CLUSTER_ID: metadata_tree.cluster_id_value(self.cluster_id),
            metadata_tree.CONTROLLER_EPOCH: controller_epoch,
        }
        if producer_id_block is not None:
            tree[metadata_tree.PRODUCER_ID_BLOCK] = metadata_tree.producer_id_block_value(producer_id_block)
        if finalised.epoch != UNKNOWN_EPOCH:
            tree[metadata_tree.FEATURES] = metadata_tree.features_value(finalised)
        lines = [_line(path, value) for path, value in tree.items()]
        self._lines = {name: self._lines_of(topic) for name, topic in sorted(topics.items())}
        lines += [text for _, text in self._lines.values()]
        tree = {}
        for name, config in sorted(broker_configs.items()):
            tree[f"{metadata_tree.BROKER_CONFIGS}/{name or metadata_tree.DEFAULT_ENTITY}"] = metadata_tree.config_value(
                config
            )
        entities: dict[Entity, dict[str, str]] = {
            entity: metadata_tree.quota_config(limits) for entity, limits in client_quotas.items()
        }
        for user, credentials in scram_credentials.items():
            entities.setdefault(Entity(user), {}).update(metadata_tree.scram_config(credentials))
        tree |= {
            metadata_tree.quota_path(entity): metadata_tree.config_value(config) for entity, config in entities.items()
        }
        tree |= {path: metadata_tree.config_value(config) for path, config in sorted(own_configs.items())}
        tree |= {acl_tree.acl_path(resource): acl_tree.acl_value(entries) for resource, entries in sorted(acls.items())}
        for name in sorted(marked):
            tree[f"{metadata_tree.DELETE_TOPICS}/{name}"] = None
        lines += [_line(path, value) for path, value in tree.items()]
        text = ("{\n" + ",\n".join(lines) + "\n}\n").encode()

        def take_over() -> None:
            self.controller_epoch = controller_epoch
            self._topics = topics
            self._marked = marked
            self._broker_configs = broker_configs
            self._client_quotas = client_quotas
            self._scram_credentials = scram_credentials
            self._own_configs = own_configs
            self._acls = acls
            self._producer_id_block = producer_id_block
            self.features.take_up(finalised)

        writing = self._writing = _Writing(
            partial(write_durably, self._files, self._path, text, is_private=True), take_over
        )
        yield writing.run
        if self._writing is writing:
            self._settle()
        writing.outcome.result()

    def _settle(self) -> None:
        """Wait for a write that is under way in a thread. If it failed, those hear of it who began it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            with suppress(OSError):
                writing.outcome.result()
                writing.take_over()

    def _lines_of(self, topic: TopicRecord) -> tuple[TopicRecord, str]:
        known = self._lines.get(topic.name)
        if known is not None and known[0] is topic:
            return known
        value = metadata_tree.topic_value(topic.topic_id, topic.assignment)
        config = metadata_tree.config_value(topic.config)
        first = _line(f"{metadata_tree.TOPICS}/{topic.name}", value)
        return topic, f"{first},\n{_line(f'{metadata_tree.TOPIC_CONFIGS}/{topic.name}', config)}"


class _Writing:
    """A write of the file; `outcome` is there when `run` has ended, which may be in another thread."""

    def __init__(self, write: Work, take_over: Callable[[], None]) -> None:
        self.take_over = take_over
        self.outcome: Future[None] = Future()
        self._write = write

    def run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(None)


def _line(path: str, value: object) -> str:
    return f"{json.dumps(path)}: {json.dumps(value)}"


def _user(entity: Entity) -> str:
    """The user of an entity; empty for the default user, which has no credentials."""
    return entity.user if isinstance(entity.user, str) else ""


def _put(known: MutableMapping[K, V], key: K, value: V) -> None:
    """What is empty is forgotten."""
    if value:
        known[key] = value
    else:
        known.pop(key, None)
