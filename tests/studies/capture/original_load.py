"""A load like an application's, for captures: bursts, pauses, hot keys, values of all sizes, by librdkafka."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

PARTITIONS: Final = 6
_WORDS: Final = (
    "order",
    "accepted",
    "payment",
    "pending",
    "shipped",
    "customer",
    "address",
    "basket",
    "voucher",
    "stock",
)
_KEYS: Final = 3000


@dataclass(frozen=True, slots=True)
class Original:
    """What the application does. rate_per_s: on average; its true rate goes up and down, and pauses."""

    name: str
    rate_per_s: float = 600.0
    seconds: int = 20
    producers: int = 2
    keyed: bool = True
    headers: bool = True
    value_bytes: float = 300.0
    client: dict[str, str | int] = field(default_factory=dict)


ORIGINALS: Final = (
    Original("keyed-lz4", client={"compression.type": "lz4", "linger.ms": 20}),
    Original("plain", keyed=False, headers=False, producers=1, client={"linger.ms": 5}),
    Original("large-zstd", rate_per_s=250.0, value_bytes=4000.0, client={"compression.type": "zstd", "linger.ms": 50}),
)


def create_topic(address: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)


def send(address: str, topic: str, original: Original, seed: int = 1) -> int:
    """Send the load in its time, and return how many records it had."""
    chosen = random.Random(seed)
    due_s = _due_s(original, seed)
    keys = np.random.default_rng(seed).zipf(1.3, len(due_s)) % _KEYS
    clients = [
        Producer({"bootstrap.servers": address, "enable.idempotence": True, **original.client})
        for _ in range(original.producers)
    ]
    records = [_record(chosen, original, int(key)) for key in keys]
    start_s, sent = time.monotonic(), 0
    while sent < len(records):
        now_s = time.monotonic() - start_s
        while sent < len(records) and due_s[sent] <= now_s:
            key, value, headers = records[sent]
            clients[sent % len(clients)].produce(topic, value, key, headers=headers)
            sent += 1
        for client in clients:
            client.poll(0)
        time.sleep(0.001)
    for client in clients:
        assert client.flush(60) == 0
    return sent


def _due_s(original: Original, seed: int) -> list[float]:
    """Arrivals of a rate that swings, jumps to three times its mean, and is nothing for a second."""
    draws = np.random.default_rng(seed)
    found = []
    for tenth in range(original.seconds * 10):
        rate = original.rate_per_s * (1 + 0.6 * np.sin(tenth / 15)) * (3 if tenth % 70 < 4 else 1)
        if not 90 <= tenth < 100:
            found.append(np.sort(draws.random(draws.poisson(rate / 10))) / 10 + tenth / 10)
    due: list[float] = np.concatenate(found).tolist()
    return due


def _record(
    chosen: random.Random, original: Original, key: int
) -> tuple[bytes | None, bytes, list[tuple[str, str | bytes | None]] | None]:
    size = int(min(40_000, max(30, chosen.lognormvariate(0, 0.7) * original.value_bytes)))
    text = f'{{"id":"{chosen.randbytes(max(8, size // 8)).hex()}","text":"'
    while len(text) < size:
        text += f"{chosen.choice(_WORDS)} {chosen.randrange(10_000)} "
    name = None if not original.keyed or chosen.random() < 0.05 else f"customer-{key:0{4 + key % 5}}".encode()
    headers: list[tuple[str, str | bytes | None]] | None = None
    if original.headers:
        headers = [("trace-id", chosen.randbytes(16)), ("kind", b"order" * (key % 3))]
    return name, text[:size].encode(), headers
