"""The ACLs of a broker that runs alone: in its metadata file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from highwater.broker.alone.stepping import Stepping
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.security.authorizer import Authorizer, Entries
from highwater.broker.settings.acl_store import AclChange, Created, Deleted, Deletion, creations
from highwater.broker.slices import Steps
from highwater.kafka.acl import Acl, AclFilter, Resource
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

Outcome = Mapping[Resource, "Entries | Problem"]


class StoredAcls:
    """Implements `AclStore`. All changes of a request are written together, or none."""

    def __init__(self, store: EmbeddedMetadataStore, authorizer: Authorizer, stepping: Stepping) -> None:
        self.authorizer = authorizer
        self._store = store
        self._stepping = stepping
        for resource, entries in store.acls.items():
            authorizer.set_entries(resource, entries)

    def create(self, acls: Sequence[Acl], then: Callable[[Created], None]) -> None:
        def changed(outcome: Outcome) -> None:
            results = [outcome[acl.resource] for acl in acls]
            then([each if isinstance(each, Problem) else None for each in results])

        self._stepping.run(self._changing(creations(acls), changed))

    def delete(self, filters: Sequence[AclFilter], then: Callable[[Deleted], None]) -> None:
        deletion = Deletion(filters, self.authorizer.resources)
        changing = self._changing(deletion.changes, lambda outcome: then(deletion.results(outcome)))
        self._stepping.run(changing)

    def _changing(self, changes: Mapping[Resource, AclChange], then: Callable[[Outcome], None]) -> Steps[None]:
        try:
            yield from self._store.changing_acls(changes)
        except OSError as error:
            _logger.error("cannot keep ACLs: %s", error)
            problem = Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
            then(dict.fromkeys(changes, problem))
            return
        # Another change of the same resource may have been written since, and be known here already.
        known = self._store.acls
        after = {resource: known.get(resource, frozenset()) for resource in changes}
        for resource, entries in after.items():
            self.authorizer.set_entries(resource, entries)
        then(after)
