"""Spark's errors in one line."""

from __future__ import annotations

import pytest

from highwater.common.spark_errors import first_error_in, not_accepted, reason_of, refusal_in

TRACE_AFTER_SPARKS_WORDS = """org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover:
Most recent failure reason: Stage failed because barrier task ResultTask(0, 0) finished unsuccessfully.
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1983, in main
    process()
ZeroDivisionError: division by zero
	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TRACE_AFTER_SPARKS_WORDS, "ZeroDivisionError: division by zero"),
        ("Traceback (most recent call last):\n  File x\nValueError: no\n\tat java", "ValueError: no"),
        (
            (
                "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "
                "Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): java.io.EOFException: it ended\n\tat x"
            ),
            "it ended",
        ),
        ("java.net.ConnectException: Connection refused\n\tat x", "Connection refused"),
        ("\tat nothing.but.frames", "RuntimeError"),
    ],
)
def test_the_line_that_tells_something(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason


SAME_SETTINGS = "spark.authenticate*, spark.ssl.rpc.* and spark.network.crypto.* have to be those of the master"


def test_the_log_of_java_is_read_for_its_first_error() -> None:
    assert first_error_in("") == "it printed nothing"
    log = 'starting\nException in thread "main" java.lang.Boom: no\n\tat x.Y.z(Y.java:1)\nend\n'
    assert first_error_in(log) == "java.lang.Boom: no"


def test_a_host_name_without_an_address_is_named_with_the_way_out() -> None:
    log = "java.lang.Boom: no\nCaused by: java.net.UnknownHostException: lonely: lonely: Name or service not known\n"
    assert first_error_in(log).startswith("this host's own name, lonely, has no address: add it to /etc/hosts")


OF_A_MASTER = """\
26/11/25 19:21:03 ERROR TransportClientFactory: Exception while bootstrapping client after 421 ms
java.lang.RuntimeException: java.io.IOException: Connection reset by peer
Caused by: java.io.IOException: Connection reset by peer
26/11/25 19:21:03 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master a:7077
"""


def test_a_master_refuses_if_none_of_its_addresses_takes_the_application() -> None:
    assert refusal_in(OF_A_MASTER, "local[2]") is None
    assert refusal_in(OF_A_MASTER, "spark://a:7077,b:7077") is None
    both = OF_A_MASTER + OF_A_MASTER.replace("a:7077", "b:7077")
    for log, master in ((OF_A_MASTER, "spark://a:7077"), (both, "spark://a:7077,b:7077")):
        assert refusal_in(log, master) == (
            f"the Spark master {master} refuses this application: Connection reset by peer; {SAME_SETTINGS}"
        )


def test_another_secret_is_named() -> None:
    log = OF_A_MASTER.replace("java.io.IOException: Connection reset by peer", "javax.security.sasl.SaslException: no")
    told = "the Spark master spark://a:7077 refuses spark.authenticate.secret: it has another one"
    assert refusal_in(log, "spark://a:7077") == told


def test_a_master_that_stays_silent() -> None:
    assert not_accepted("spark://a:7077") == (
        f"the Spark master spark://a:7077 did not accept this application; {SAME_SETTINGS}"
    )
