"""Settings of a subscription: what Kafka's ClientMetricsConfigs takes and refuses, and whom patterns match."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.telemetry.subscriptions import DEFAULT_INTERVAL_MS, Identity, Subscription, subscription_of
from highwater.kafka.protocol.problem import Problem

CLIENT = Identity("AAAAAAAAAAAAAAAAAAAAAg", "orders-1", "librdkafka", "2.12.1", "10.0.0.7", "51234")


def test_what_is_left_out_has_a_default() -> None:
    assert subscription_of({}) == Subscription(frozenset(), DEFAULT_INTERVAL_MS, {})


def test_lists_are_those_of_kafka() -> None:
    subscription = subscription_of({"metrics": " org.a. ,org.b", "interval.ms": " 100 "})
    assert subscription == Subscription(frozenset(("org.a.", "org.b")), 100, {})


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("client_id=orders-.*", True),
        ("client_id=orders", False),
        (" client_software_name = librdkafka , client_software_version = 2\\..*", True),
        ("client_software_name=librdkafka,client_software_version=1\\..*", False),
        ("client_source_address=10\\..*,client_source_port=51234", True),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAAAg", True),
        ("client_id=(a+)+b|orders-1", True),
    ],
)
def test_a_client_matches_with_all_of_each_name(match: str, matches: bool) -> None:
    subscription = subscription_of({"match": match})
    assert isinstance(subscription, Subscription)
    assert subscription.matches(CLIENT) == matches


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"random": "random"}, ErrorCode.invalid_request, "Unknown client metrics configuration: random"),
        ({"interval.ms": "99"}, ErrorCode.invalid_request, "interval must be between 100 and 3600000 (1 hour)"),
        ({"interval.ms": "3600001"}, ErrorCode.invalid_request, "interval must be between 100 and 3600000 (1 hour)"),
        ({"interval.ms": "-1"}, ErrorCode.invalid_request, "interval must be between"),
        ({"interval.ms": "soon"}, ErrorCode.invalid_config, "Not a number of type INT"),
        ({"interval.ms": ""}, ErrorCode.invalid_config, "Not a number of type INT"),
        ({"interval.ms": "9" * 30}, ErrorCode.invalid_config, "Not a number of type INT"),
        ({"match": "a,b"}, ErrorCode.invalid_config, "Illegal client matching pattern: a"),
        ({"match": "client_id="}, ErrorCode.invalid_config, "Illegal client matching pattern: client_id="),
        ({"match": "client_id=a=b"}, ErrorCode.invalid_config, "Illegal client matching pattern: client_id=a=b"),
        ({"match": "user=a"}, ErrorCode.invalid_config, "Illegal client matching pattern: user=a"),
        ({"match": "client_id=("}, ErrorCode.invalid_config, "Illegal client matching pattern: client_id=("),
        ({"match": "client_id=(?!a)b"}, ErrorCode.invalid_config, "Illegal client matching pattern: client_id=(?!a)b"),
        ({"match": "client_id=" + "(a{900}){900}"}, ErrorCode.invalid_config, "Illegal client matching pattern"),
    ],
)
def test_what_is_wrong_has_the_error_code_of_kafka(settings: dict[str, str], error: ErrorCode, words: str) -> None:
    problem = subscription_of(settings)
    assert isinstance(problem, Problem)
    assert problem.error_code is error
    assert words in problem.message
