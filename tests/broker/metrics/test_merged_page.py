"""Pages of several processes as one: each family once, each sample with its process."""

from __future__ import annotations

from highwater.broker.metrics.merged_page import merged

PAGE = """\
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{api="Fetch"} 5
requests_total{api="a \\"b\\" } c"} 6
# HELP wait_seconds How long.
# TYPE wait_seconds histogram
wait_seconds_bucket{le="+Inf"} 2
wait_seconds_sum 0.5
"""


def test_samples_of_a_family_stand_together_with_their_process() -> None:
    own = "# HELP only_here One.\n# TYPE only_here gauge\nonly_here 1\n"
    assert merged({0: PAGE, 2: PAGE.replace(" 5\n", " 7\n") + own}) == (
        "# HELP requests_total Requests.\n"
        "# TYPE requests_total counter\n"
        'requests_total{process="0",api="Fetch"} 5\n'
        'requests_total{process="0",api="a \\"b\\" } c"} 6\n'
        'requests_total{process="2",api="Fetch"} 7\n'
        'requests_total{process="2",api="a \\"b\\" } c"} 6\n'
        "# HELP wait_seconds How long.\n"
        "# TYPE wait_seconds histogram\n"
        'wait_seconds_bucket{process="0",le="+Inf"} 2\n'
        'wait_seconds_sum{process="0"} 0.5\n'
        'wait_seconds_bucket{process="2",le="+Inf"} 2\n'
        'wait_seconds_sum{process="2"} 0.5\n'
        "# HELP only_here One.\n"
        "# TYPE only_here gauge\n"
        'only_here{process="2"} 1\n'
    )


def test_no_page_is_no_page() -> None:
    assert merged({}) == ""
