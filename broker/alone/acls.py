"""The ACLs of a broker that runs alone: in its metadata file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.protocol.problem import Problem
from highwater.broker.security.acl import Acl, AclFilter, Resource
from highwater.broker.security.authorizer import Authorizer, Entries
from highwater.broker.settings.acl_store import AclChange, Created, Deleted, Deletion, creations

_logger = logging.getLogger(__name__)


class StoredAcls:
    """Implements `AclStore`. All changes of a request are written together, or none."""

    def __init__(self, store: EmbeddedMetadataStore, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self._store = store
        for resource, entries in store.acls.items():
            authorizer.set_entries(resource, entries)

    def create(self, acls: Sequence[Acl], then: Callable[[Created], None]) -> None:
        outcome = self._change(creations(acls))
        results = [outcome[acl.resource] for acl in acls]
        then([each if isinstance(each, Problem) else None for each in results])

    def delete(self, filters: Sequence[AclFilter], then: Callable[[Deleted], None]) -> None:
        deletion = Deletion(filters, self.authorizer.resources)
        then(deletion.results(self._change(deletion.changes)))

    def _change(self, changes: Mapping[Resource, AclChange]) -> Mapping[Resource, Entries | Problem]:
        after = {resource: change(self.authorizer.entries(resource)) for resource, change in changes.items()}
        try:
            self._store.put_acls(after)
        except OSError as error:
            _logger.error("cannot keep ACLs: %s", error)
            problem = Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
            return dict.fromkeys(changes, problem)
        for resource, entries in after.items():
            self.authorizer.set_entries(resource, entries)
        return after
