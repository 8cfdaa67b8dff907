"""Logs of replicas that were moved away or deleted while this broker was down.

The controller sends all partitions to a broker that starts. The broker deletes its log of a partition that only others
have now: they were in the ISR before the controller took it from this broker. Logs of topics that the controller does
not name stay, as nothing is known of them. (Kafka with KRaft does the same; Kafka with ZooKeeper keeps all such logs.)
"""

from __future__ import annotations

import logging

from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.topics.partitions import Partitions
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)


class Strays:
    def __init__(self, broker_id: int, partitions: Partitions, cluster: MetadataCache) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._cluster = cluster
        self._unclaimed: set[TopicPartition] = set(partitions.log_directories.keys())
        """Partitions that had a log here at the start, and that the controller has not named yet."""
        self._stop_looking = cluster.when_changed(self._look)

    def close(self) -> None:
        self._stop_looking()

    def _look(self) -> None:
        strays = []
        for key in list(self._unclaimed):
            log = self._partitions.log_directories.get(key)
            if log is None or self._partitions.find(*key) is not None:
                self._unclaimed.discard(key)
                continue
            topic = self._cluster.topic(key[0])
            partition = None if topic is None or topic.topic_id != log.topic_id else topic.partitions.get(key[1])
            if partition is not None and self._broker_id not in partition.replicas:
                strays.append(key)
        for topic_name, index in strays:
            self._unclaimed.discard((topic_name, index))
            _logger.info("%s-%d was moved to others while this broker was away: its log is deleted", topic_name, index)
            try:
                self._partitions.delete_replica(topic_name, index)
                self._partitions.finish_deletions(topic_name)
            except OSError as error:
                _logger.error(
                    "cannot delete the log of %s-%d: %s; the next start tries again", topic_name, index, error
                )
        if not self._unclaimed:
            self._stop_looking()
