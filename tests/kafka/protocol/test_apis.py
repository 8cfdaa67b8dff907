"""The table of APIs against what the clients in use ask for."""

from __future__ import annotations

from importlib import import_module

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, infer_broker_version_from_api_versions
from kio.schema.index import api_key_map
from kio.static.constants import EntityType

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, Api

# By API key: the lowest of the listed clients' highest versions, which our lowest must not exceed; the highest of their
# lowest versions, which our highest must reach; and the range Apache Kafka 3.9 or 4.4 serves. Clients: librdkafka 2.12,
# kafka-python 3, aiokafka 0.14, kafkajs, Java 4.x (KIP-896), Sarama, franz-go. None where no client sets a bound.
BOUNDS: dict[int, tuple[int | None, int | None, range]] = {
    0: (7, 7, range(14)),
    1: (11, 11, range(19)),
    2: (3, 2, range(12)),
    3: (5, 4, range(14)),
    8: (3, 7, range(11)),
    9: (3, 7, range(11)),
    10: (1, 1, range(7)),
    11: (5, 5, range(10)),
    12: (1, 3, range(5)),
    13: (1, 3, range(6)),
    14: (3, 3, range(6)),
    15: (2, 0, range(7)),
    16: (1, 0, range(6)),
    17: (1, 1, range(2)),
    18: (0, 0, range(6)),
    19: (3, 4, range(8)),
    20: (1, 1, range(7)),
    21: (1, 0, range(3)),
    22: (0, 3, range(6)),
    23: (2, 2, range(5)),
    24: (0, 0, range(6)),
    25: (0, 0, range(5)),
    26: (0, 0, range(6)),
    27: (None, None, range(3)),
    28: (0, 3, range(7)),
    29: (1, 1, range(4)),
    30: (1, 1, range(4)),
    31: (1, 1, range(4)),
    32: (1, 1, range(5)),
    33: (1, 0, range(3)),
    34: (None, 1, range(3)),
    35: (None, 1, range(6)),
    36: (1, 0, range(3)),
    37: (1, 0, range(4)),
    42: (1, 0, range(4)),
    43: (2, 0, range(3)),
    44: (1, 0, range(2)),
    45: (0, 0, range(2)),
    46: (0, 0, range(1)),
    47: (0, 0, range(1)),
    48: (0, 0, range(2)),
    49: (0, 0, range(2)),
    50: (0, 0, range(1)),
    51: (0, 0, range(1)),
    57: (None, 0, range(3)),
    60: (None, 0, range(3)),
    61: (None, None, range(1)),
    65: (None, 0, range(1)),
    66: (None, 0, range(3)),
    68: (1, 1, range(2)),  # Kafka 4
    69: (1, 0, range(2)),  # Kafka 4
    71: (0, 0, range(1)),  # Kafka 4
    72: (0, 0, range(1)),  # Kafka 4
    74: (None, 0, range(2)),  # Kafka 4
    75: (None, 0, range(1)),
}


# What a single node has to serve: the lowest versions of Apache Kafka 3.9, the highest of 4.4 where the newer ones ask
# for nothing that is not here.
PARITY: dict[int, tuple[int, int]] = {
    0: (0, 13),
    1: (4, 18),
    2: (0, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 5),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 5),
    23: (0, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (0, 2),
    28: (0, 6),
    29: (0, 3),
    30: (0, 3),
    31: (0, 3),
    32: (0, 4),
    33: (0, 2),
    34: (0, 2),
    35: (0, 5),
    36: (0, 2),
    37: (0, 3),
    42: (0, 3),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    71: (0, 0),
    72: (0, 0),
    74: (0, 1),
    75: (0, 0),
}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_ranges_are_those_of_kafka(api: Api) -> None:
    least, most = PARITY[api.key]
    assert api.min_version <= least
    assert api.max_version >= most


def test_a_client_that_guesses_the_release_guesses_one_whose_versions_are_here() -> None:
    """kafka-python, when its user names no newer release than it guesses, asks by the versions of the named one."""
    ours = {api.key: (api.min_version, api.max_version) for api in APIS.values()}
    guessed = infer_broker_version_from_api_versions(ours)
    releases = [release for release in BROKER_API_VERSIONS if (2, 0) <= release <= guessed]
    assert (4, 3) in releases
    missing = {
        (release, key, ours[key], most)
        for release in releases
        for key, (_, most) in BROKER_API_VERSIONS[release].items()
        if key in ours and ours[key][1] < most
    }
    assert missing == set()


def test_every_api_has_its_bounds() -> None:
    assert set(APIS) == set(BOUNDS)


@pytest.mark.parametrize("key", BOUNDS)
def test_version_ranges_reach_every_client(key: int) -> None:
    lowest_max, highest_min, kafka = BOUNDS[key]
    api = APIS[key]
    assert lowest_max is None or api.min_version <= lowest_max
    assert highest_min is None or api.max_version >= highest_min
    assert api.min_version in kafka
    assert api.max_version in kafka


def test_produce_is_told_from_version_0_and_served_from_3() -> None:
    """librdkafka 4956: with a higher lowest version older librdkafka sends every batch uncompressed, silently."""
    produce = APIS[0]
    assert produce.min_version == 0
    assert [version for version in range(15) if produce.serves(version)] == list(range(3, 14))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_table_agrees_with_the_schemas(api: Api) -> None:
    assert api_key_map[api.key] == api.name
    for version in filter(api.serves, range(api.max_version + 1)):
        entity = cold._entity(api.name, version, EntityType.request)
        assert entity.__flexible__ == api.is_flexible(version), f"{api.name} {version}"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_a_handler_that_says_what_it_serves(api: Api) -> None:
    module = import_module(f"highwater.broker.handlers.{api.name}")
    assert callable(module.handle)
    least = max(api.min_version, api.served_from)
    assert f"v{least}-v{api.max_version} (key {api.key})" in (module.__doc__ or "")
