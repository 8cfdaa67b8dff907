"""What a verdict is based on, from a trial's summary and seconds, or from its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.bench.host.cluster_use import shared_cpu_ratio, steal_ratio
from highwater.bench.trials.verdict import Evidence, judge
from highwater.bench.workload.client_properties import as_text, to_librdkafka
from highwater.bench.workload.model import Workload
from highwater.results.models import Reason, TrialSummary, Verdict, Window, fastest_read_per_s

_LIBRDKAFKA_TRUE: Final = ("true", "t", "1")


@dataclass(frozen=True, slots=True)
class Beside:
    """What was found beside the figures, and is in no file but the verdict itself."""

    host_profile: Sequence[Reason] = ()
    canary: Sequence[Reason] = ()
    client_errors: Sequence[str] = ()


def evidence_in(summary: TrialSummary, windows: Sequence[Window], workload: Workload, beside: Beside) -> Evidence:
    client = {name: as_text(value) for name, value in to_librdkafka("producer", workload.producers.client).items()}
    transactional = workload.producers.transactions is not None
    host, cluster = summary.host, summary.cluster_hosts
    shares_host = not cluster and host.system_cpu_ratio is not None
    return Evidence(
        acks=client.get("acks", client.get("request.required.acks", "all")),
        # librdkafka makes a transactional producer idempotent by itself.
        idempotent=transactional or client.get("enable.idempotence", "").lower() in _LIBRDKAFKA_TRUE,
        transactional=transactional,
        promise=workload.checks.delivery,
        constant_rate=workload.load.is_constant,
        ordered=workload.checks.order == "per_partition",
        drain_max_s=workload.phases.drain_max_s,
        native=workload.producers.native,
        steady=summary.steady,
        offered_per_s=summary.offered_per_s,
        achieved_per_s=summary.achieved_per_s,
        consumed_per_s=fastest_read_per_s(summary.consumed_per_s, summary.backlog),
        delivery=summary.delivery,
        produce=summary.produce,
        e2e=summary.e2e,
        generator=summary.generator,
        host_cpu_ratio=host.cpu_ratio if shares_host else shared_cpu_ratio(cluster),
        produce_p50_ns_by_second=[window.produce_p50_ns for window in windows if window.phase == "measure"],
        client_errors=beside.client_errors,
        host_profile=beside.host_profile,
        canary=beside.canary,
        steal_ratio=steal_ratio(host, cluster),
        at_once=summary.at_once is not None,
        skipped_by_group=summary.rebalances.skipped if summary.rebalances else 0,
    )


def judged_again(summary: TrialSummary, windows: Sequence[Window], workload: Workload) -> Verdict:
    """The verdict of a trial without faults; beside faults, only some seconds are judged, by histograms of theirs."""
    reasons = summary.verdict.reasons
    beside = Beside(
        host_profile=[reason for reason in reasons if reason.check == "host.profile"],
        canary=[reason for reason in reasons if reason.check.startswith(("canary.", "trials.at_once"))],
    )
    return judge(evidence_in(summary, windows, workload, beside), workload.validity)
