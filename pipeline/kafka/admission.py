"""Whether brokers let a client of librdkafka in: it does not say why they do not, and never gives up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.kafka.client.blocking import why_refused
from highwater.pipeline.errors import ClientError

_UNASKED_S: Final = 1.0
"""How long librdkafka may take before the reason is looked for."""


def check_admission(admin: AdminClient, client: Mapping[str, Any]) -> None:
    """Raises ClientError if TLS, the login or the protocol is why no broker answers. `client`: the settings of both."""
    try:
        admin.list_topics(timeout=_UNASKED_S)
    except KafkaException:
        if told := why_refused(client):
            raise ClientError(told) from None
