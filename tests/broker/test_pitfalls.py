"""Where other brokers went wrong with stock clients, and the tests that keep this one from it, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.broker.settings.config import BrokerConfig

HERE = Path(__file__).parent
PITFALLS = {
    "older librdkafka sends uncompressed when Produce is told from 3 on (librdkafka 4956)": [
        "../kafka/protocol/test_apis.py::test_produce_is_told_from_version_0_and_served_from_3",
    ],
    "ApiVersions of a newer version is answered in the oldest format, and the client's software is checked (KIP-511)": [
        "handlers/test_administration.py::test_a_newer_version_is_answered_in_the_oldest_format",
        "handlers/test_administration.py::test_software_names_must_look_like_one",
    ],
    "librdkafka takes null records of a fetch that failed for damage": [
        "handlers/test_produce_fetch.py::test_errors_come_with_empty_records_never_null",
    ],
    "a fetch from inside a batch must get the whole batch, or consumers hang": [
        "handlers/test_produce_fetch.py::test_a_fetch_inside_a_batch_gets_the_whole_batch",
    ],
    "`localhost` may be IPv6 for clients": ["test_pitfalls.py::test_clients_are_told_an_ipv4_literal"],
    "clients of 4.0 want brokers of 2.1 and the other way round (KIP-896)": [
        "../kafka/protocol/test_apis.py::test_version_ranges_reach_every_client",
        "../kafka/protocol/test_apis.py::test_ranges_are_those_of_kafka",
    ],
    "a finalised transaction.version makes clients use what is not there (KIP-890)": [
        "handlers/test_administration.py::test_every_version_tells_the_table",
    ],
    "clients send any leader epoch; all else of a batch's header is checked": [
        "handlers/test_produce_fetch.py::test_the_leader_epoch_in_a_batch_is_the_brokers_to_set",
        "handlers/test_produce_fetch.py::test_what_is_no_proper_batch_is_refused",
    ],
    "the first batch of an idempotent producer that is not known may have any sequence": [
        "log/test_producer_state.py::test_judging_a_batch",
    ],
    "acks 0 gets no answer; acks are -1, 0 or 1": [
        "handlers/test_produce_fetch.py::test_acks_0_gets_no_answer_and_a_failed_one_hangs_up",
        "handlers/test_produce_fetch.py::test_other_acks_are_refused",
    ],
    "a parked fetch must go with its connection": [
        "handlers/test_produce_fetch.py::test_a_fetch_whose_client_went_away_leaves_nothing_behind",
        "server/test_connection.py::test_a_lost_connection_cancels_what_it_waits_for",
    ],
    "a record without a key on a compacted topic": [
        "handlers/test_record_rules.py::test_keyless_records_of_a_compacted_topic_are_named",
    ],
    "max.message.bytes": ["handlers/test_produce_fetch.py::test_too_large_a_batch_is_refused"],
    "offsets for times": ["handlers/test_administration.py::test_special_timestamps_need_their_version"],
    "CreatePartitions answers for every topic": ["handlers/test_administration.py::test_refusals"],
    "metadata of a commit comes back": ["handlers/test_groups.py::test_fetching"],
    "DescribeConfigs tells every setting with its source": [
        "handlers/test_administration.py::test_configs_of_a_topic_with_their_sources",
    ],
    "transaction.timeout.ms above the broker's limit": [
        "handlers/test_transactions.py::test_the_time_out_has_its_limits"
    ],
    "lists are appended to and subtracted from (KIP-339)": [
        "handlers/test_alter_configs.py::test_lists_grow_and_shrink_from_what_is_in_force",
    ],
    "a commit during a rebalance": ["handlers/test_groups.py::test_members_commit_in_their_generation"],
}


def names_of_tests(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_every_pitfall_has_its_tests(pitfall: str) -> None:
    for test in PITFALLS[pitfall]:
        path, name = test.split("::")
        assert name in set(names_of_tests(HERE / path)), test


def test_clients_are_told_an_ipv4_literal() -> None:
    """librdkafka tries ::1 first for `localhost`."""
    assert BrokerConfig().string("listeners") == "PLAINTEXT://127.0.0.1:9092"
