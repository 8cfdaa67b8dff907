from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from highwater.bench.telemetry.notes import HostNote, encode_note
from highwater.results.files import latency_of
from highwater.results.histogram import Histogram
from highwater.spark_loadgen.telemetry.message import TaskMessage
from highwater.studies.telemetry.figures import second_figures, trial_figures
from highwater.studies.telemetry.rows import rows_of
from highwater.studies.telemetry.sums import Sums, TrialSums, summed
from tests.studies.telemetry.messages import TRIAL, ImaginedLoad, exact_percentile, imagined_load, trial_note


def sums_of(load: ImaginedLoad) -> TrialSums:
    sums = Sums()
    sums.add(summed(pa.Table.from_batches([rows_of(load.encoded())])))
    return sums.trials[TRIAL]


def plain(sums: TrialSums) -> dict[str, object]:
    series = {
        metric: {second: list(item.items()) for second, item in sorted(rows.items())}
        for metric, rows in sorted(sums.histograms.items())
    }
    counts = {name: dict(sorted(row.items())) for name, row in sorted(sums.counts.items())}
    return {"series": series, "counts": counts, "cpu": sums.cpu, "hosts": sums.hosts, "tasks": sums.tasks}


@pytest.mark.parametrize("seed", range(12))
def test_the_sum_does_not_depend_on_how_the_stream_was_cut(seed: int) -> None:
    """Any micro-batches, any Spark partitions, any order of rows: the same sums and the same figures."""
    load, random = imagined_load(seed), Random(seed)
    whole = sums_of(load)
    left, pieces = list(load.encoded()), Sums()
    while left:
        batch, left = left[: (size := random.randrange(1, 30))], left[size:]
        parts = [batch[start::3] for start in range(3)]
        table = summed(pa.Table.from_batches([rows_of(part) for part in parts]))
        pieces.add(table.take(random.sample(range(table.num_rows), table.num_rows)))
    assert plain(pieces.trials[TRIAL]) == plain(whole)
    assert second_figures(pieces.trials[TRIAL], range(8)) == second_figures(whole, range(8))
    live, final = trial_figures(pieces.trials[TRIAL]), trial_figures(whole)
    assert (live.latencies, live.objectives, live.missing) == (final.latencies, final.objectives, 0)
    assert final.late == 0


def test_percentiles_are_those_of_all_raw_values_in_a_thousand_cases() -> None:
    """At the resolution of a bucket, against ranks in the sorted values; figures of seconds and of the whole phase."""
    cases = 0
    for seed in range(14):
        load = imagined_load(seed)
        sums = sums_of(load)
        figures = trial_figures(sums)
        for metric, by_second in load.values.items():
            measured = [value for second, row in by_second.items() if 2 <= second < 8 for value in row]
            checked = [(figures.latencies[metric].model_dump(), measured)]
            checked += [
                (dict(one.latencies[metric]), by_second[one.second])
                for one in second_figures(sums, range(8))
                if metric in one.latencies
            ]
            for found, values in checked:
                for name, percentile in (("p50", 50), ("p99", 99), ("p999", 99.9), ("max", 100)):
                    assert found[name] == exact_percentile(values, percentile)
                    cases += 1
                assert found["count"] == len(values)
    assert cases >= 1000


def test_the_sums_are_the_raw_values_bucket_for_bucket() -> None:
    load = imagined_load(77)
    sums = sums_of(load)
    for metric, by_second in load.values.items():
        expected = {s: list(Histogram.of_values(row).items()) for s, row in by_second.items() if row}
        assert {s: list(item.items()) for s, item in sums.histograms[metric].items()} == expected
    assert {name: dict(row) for name, row in sums.counts.items()} == {
        name: {second: count for second, count in row.items() if count} for name, row in load.counts.items()
    }


def test_a_second_closes_when_all_tasks_have_told_the_next_one() -> None:
    note, sums = trial_note(), Sums()

    def tell(task: int, second: int, *, last: bool = False) -> TrialSums:
        message = TaskMessage(TRIAL, task, second, second, second, last=last, cpu_ratio=[0.5])
        sums.add(pa.Table.from_batches([rows_of([message.encode()])]))
        return sums.trials[TRIAL]

    sums.add(pa.Table.from_batches([rows_of([encode_note(note)])]))
    assert [tell(task, 0).closed for task in range(3)] == [0, 0, 0]
    assert [tell(task, 1).closed for task in range(3)] == [0, 0, 1]
    # The third task is silent: its seconds are closed without it by the watermark.
    assert [tell(0, second).closed for second in range(2, 8)] == [1, 1, 1, 1, 2, 3]
    assert sums.trials[TRIAL].late == 0
    late = TaskMessage(TRIAL, 2, 2, 2, 2, histograms={("e2e_response", 1): Histogram.of_values([5, 6, 7])})
    sums.add(pa.Table.from_batches([rows_of([late.encode()])]))
    assert (sums.trials[TRIAL].late, sums.trials[TRIAL].late_seconds) == (3, {1})
    assert sums.trials[TRIAL].histograms["e2e_response"][1].count == 3


def test_messages_that_are_missing_or_there_twice_are_counted() -> None:
    load = imagined_load(3)
    load.messages = [message for message in load.messages if message.number != 4]
    assert trial_figures(sums_of(load)).missing == 3
    load.messages += load.messages[:2]
    assert trial_figures(sums_of(load)).missing == 1


def test_what_is_no_message_is_counted_with_its_reason() -> None:
    sums = Sums()
    future = TaskMessage(TRIAL, 0, 0, 0).encode()
    foreign = [None, b"hello", b"\xff\xfe", b'{"kind":"moon","version":1}', future[:3] + b"\x09" + future[4:]]
    foreign.append(encode_note(HostNote(TRIAL, "h", 0, {})).replace(b'"second":0', b'"second":"0"'))
    sums.add(summed(pa.Table.from_batches([rows_of(foreign)])))
    assert sums.trials == {}
    assert sums.malformed == {
        "this is neither a message of a task nor a note of a driver": 3,
        "a note of kind 'moon' is not known": 1,
        "the message has version 9; this Highwater knows version 1": 1,
        "a host note is damaged: second is '0'": 1,
    }


def test_objectives_say_what_is_held_now_for_how_long_and_where_it_was_worst() -> None:
    note = trial_note(
        producers=1, consumers=0, groups=0, slo={"produce.p99": "<50ms", "errors": "==0", "delivery.lost": "==0"}
    )
    latencies_ms = [1, 1, 10, 80, 20, 40, 30, 10]
    messages = [
        TaskMessage(
            TRIAL, 0, second, second, second, last=second == 7, counts={"acked": [100]}, cpu_ratio=[0.25],
            histograms={("produce_response", second): Histogram.of_values([ms * 1_000_000] * 100)},
        )
        for second, ms in enumerate(latencies_ms)
    ]  # fmt: skip
    figures = trial_figures(sums_of(ImaginedLoad([note, imagined_load(0).notes[-1]], messages, {})))
    p99, errors, lost = figures.objectives
    assert (figures.state, figures.ended, figures.closed_s, figures.measured_s) == ("missed", True, 8, 6)
    assert p99.value == latency_of(Histogram.of_values([80_000_000]), "").max
    assert (p99.met, p99.now_met, p99.held_s, p99.missed_seconds, p99.worst_second) == (False, True, 4, 1, 3)
    assert p99.headroom_ratio == pytest.approx(-0.6, abs=0.01)
    assert (errors.value, errors.met, errors.held_s) == (0, True, 6)
    assert (lost.live, lost.met) == (False, None)
    assert figures.achieved_per_s == 100
