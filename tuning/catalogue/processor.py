"""Knobs of processors: frequency, idle states, clocks, isolation, and periodic work of the kernel."""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import who_can_change
from ..formulas import processor as formulas
from ..formulas.common import constant
from ..model import Authority, Knob, Lifetime
from . import sources

_SCHEDULER_MOVED: Final = Lifetime(
    removed=(5, 13), text="moved to /sys/kernel/debug/sched; remove it from sysctl files and keep the default"
)

_knob = partial(Knob, group="kernel")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="cpu.governor",
        title="Governor of the processor's frequency",
        group="processor",
        mechanism="sysfs",
        path="/sys/devices/system/cpu/cpufreq/{target}/scaling_governor",
        unit="",
        scope="frequency policy",
        recommend=formulas.governor,
        reason="The first requests after an idle period run at a low frequency.",
        detail="Every frequency policy is set, also those of hyper-threads. With intel_pstate or amd_pstate in active "
        "mode, performance also sets energy_performance_preference to the fastest value.",
        authorities=(
            Authority("TuneD throughput-performance", "performance", sources.TUNED),
            Authority("Redpanda rpk", "performance", sources.REDPANDA),
            Authority("TiUP", "performance", sources.TIUP),
            Authority("SAP Note 2684254", "performance, on bare metal", sources.SAPTUNE_HANA),
        ),
        sources=(sources.KERNEL_CPUFREQ, sources.TUNED),
        risk="low",
        risk_text="More power and heat while the host is idle.",
        persistence="tmpfiles.d",
    ),
    _knob(
        id="cpu.boost",
        title="Frequencies above the nominal one",
        group="processor",
        mechanism="sysfs",
        path="/sys/devices/system/cpu/cpufreq/boost",
        unit="count",
        recommend=formulas.boost,
        reason="If it stays off by mistake, the host loses a fifth of its speed.",
        detail="The boost depends on temperature and on the load of the other cores, so a benchmark repeats better "
        "without it; production is faster with it. intel_pstate has no_turbo instead, where 1 means off.",
        authorities=(
            Authority("TuneD throughput-performance", "1", sources.TUNED),
            Authority("Redpanda rpk", "0", sources.REDPANDA),
            Authority("pyperf, for benchmarks", "0", sources.PYPERF),
        ),
        sources=(sources.KERNEL_CPUFREQ, sources.TUNED, sources.PYPERF),
        risk="low",
        risk_text="Speed varies with temperature.",
        persistence="tmpfiles.d",
        capability=who_can_change.PROCESSOR,
    ),
    _knob(
        id="cpu.idle_states",
        title="Exit latency of the deepest idle state",
        group="processor",
        mechanism="advice",
        path="/sys/devices/system/cpu/cpu0/cpuidle",
        unit="microseconds",
        comparison="at_most",
        recommend=formulas.idle_states,
        reason="A processor in a deep idle state handles the first packet about a hundred microseconds late.",
        detail="A program that keeps /dev/cpu_dma_latency open with a number disables deeper states while it runs, as "
        "TuneD does. The gain is microseconds at the 99.9th percentile, and boost gets lower, because it uses the "
        "power that sleeping cores save.",
        authorities=(
            Authority("TuneD latency-performance", "the first state, or 3 µs", sources.TUNED),
            Authority("SAP Note 2684254", "70 µs, on bare metal", sources.SAPTUNE_HANA),
        ),
        sources=(sources.KERNEL_CPUIDLE, sources.TUNED),
        risk="medium",
        risk_text="Heat and power as under full load, and less boost.",
        capability=who_can_change.PROCESSOR,
        only_if_named="power and heat as under full load, all the time",
        observe=formulas.observe_idle_states,
    ),
    _knob(
        id="cpu.isolation",
        title="CPUs that the boot line isolates",
        group="processor",
        mechanism="advice",
        path="/proc/cmdline",
        unit="",
        recommend=formulas.isolation,
        reason="Isolated CPUs stay idle unless a program is bound to them.",
        detail="CPUAffinity= of the unit, or taskset, separates a load generator and a broker on one host well enough, "
        "without a reboot. isolcpus= and nohz_full= remove the last few microseconds of jitter from a measurement.",
        authorities=(
            Authority("pyperf, for benchmarks", "isolcpus= and rcu_nocbs=", sources.PYPERF),
            Authority("TuneD cpu-partitioning", "nohz_full=, rcu_nocbs= and, if asked, isolcpus=", sources.TUNED),
        ),
        sources=(sources.KERNEL_PARAMETERS, sources.PYPERF),
        risk="high",
        risk_text="With a wrong boot line the host may not boot; the scheduler does not balance isolated CPUs.",
        persistence="boot line",
        capability=who_can_change.BOOT,
        observe=formulas.observe_isolation,
    ),
    _knob(
        id="clock.source",
        title="Clock source of the kernel",
        group="processor",
        mechanism="sysfs",
        path="/sys/devices/system/clocksource/clocksource0/current_clocksource",
        unit="",
        recommend=formulas.clock_source,
        reason="Every record gets a timestamp; with hpet or acpi_pm each costs a system call and a slow bus access.",
        detail="A program reads tsc, and the clocks of KVM, Hyper-V and ARM guests, without entering the kernel. The "
        "kernel does not offer tsc after it has detected an error in it; then tsc must stay off.",
        authorities=(
            Authority("Redpanda rpk", "tsc", sources.REDPANDA),
            Authority("ScyllaDB perftune", "tsc; kvm-clock in a guest of KVM", sources.PERFTUNE),
        ),
        sources=(sources.KERNEL_TIMEKEEPING, sources.REDPANDA),
        risk="medium",
        risk_text="If the hypervisor does not adjust tsc, the time of a guest jumps when the guest is migrated.",
        persistence="tmpfiles.d",
        capability=who_can_change.PROCESSOR,
    ),
    _knob(
        id="kernel.randomize_va_space",
        title="Address space layout randomization (ASLR)",
        mechanism="advice",
        unit="count",
        recommend=constant(2, "2"),
        reason="Without it, a benchmark measures one accidental memory layout, and attackers can predict addresses.",
        detail="It is a security feature; benchmarks average over layouts by starting the program again.",
        authorities=(
            Authority("kernel default", "2", sources.KERNEL_KERNEL),
            Authority("pyperf, for benchmarks", "2", sources.PYPERF),
        ),
        risk="low",
        risk_text="None known.",
    ),
    _knob(
        id="kernel.nmi_watchdog",
        title="Watchdog for CPUs that hang",
        unit="count",
        recommend=constant(0, "0"),
        reason="It interrupts every CPU every few seconds and occupies a hardware counter that profilers need.",
        detail="The effect is far too small for a broker's client; it matters for measurements of microseconds.",
        authorities=(
            Authority("kernel default", "1 on bare metal", sources.KERNEL_KERNEL),
            Authority("TuneD network-latency", "0", sources.TUNED),
        ),
        risk="low",
        risk_text="A CPU that hangs in the kernel is not noticed.",
        only_if_named="a CPU that hangs in the kernel is not noticed any more",
    ),
    _knob(
        id="kernel.timer_migration",
        title="Migration of timers from idle CPUs to busy ones",
        unit="count",
        recommend=constant(0, "0"),
        reason="A busy CPU runs the timers of other CPUs during a request.",
        detail="It lets idle CPUs stay asleep. The effect matters for measurements of microseconds.",
        authorities=(
            Authority("kernel default", "1", sources.KERNEL_KERNEL),
            Authority("TuneD network-latency", "0", sources.TUNED),
        ),
        risk="low",
        risk_text="Idle CPUs wake more often.",
        only_if_named="more power, for a gain of microseconds",
    ),
    _knob(
        id="kernel.perf_event_max_sample_rate",
        title="Maximum number of profiler samples per second",
        unit="count",
        comparison="at_most",
        recommend=constant(1, "1"),
        reason="A profiler that runs during a benchmark adds to its measurements.",
        detail="The kernel lowers the value when samples take too long. 1 is for the minutes of a benchmark: sampling "
        "tools, such as continuous profilers, get no data then.",
        authorities=(
            Authority("kernel default", "100000", sources.KERNEL_KERNEL),
            Authority("pyperf, for benchmarks", "1", sources.PYPERF),
        ),
        risk="low",
        risk_text="Sampling profilers and monitoring get no data.",
        only_if_named="sampling profilers and monitoring get no data",
    ),
    _knob(
        id="kernel.sched_min_granularity_ns",
        title="Shortest time slice of a task on a CPU",
        unit="count",
        recommend=formulas.left_to_its_kernel,
        reason="Older tuning guides set it, but current kernels do not have it.",
        detail="In nanoseconds. The scheduler of Linux 6.6 no longer has this concept.",
        authorities=(
            Authority("TuneD mssql", "15000000", sources.TUNED),
            Authority("TuneD postgresql", "10000000", sources.TUNED),
            Authority("ScyllaDB", "500000", sources.SCYLLA),
        ),
        sources=(sources.KERNEL_SCHED_DEBUG,),
        risk="medium",
        risk_text="Longer time slices make short tasks wait.",
        lifetime=_SCHEDULER_MOVED,
    ),
    _knob(
        id="kernel.sched_migration_cost_ns",
        title="How long the cache of a task counts as warm after it ran",
        unit="count",
        recommend=formulas.left_to_its_kernel,
        reason="Older tuning guides set it, but current kernels do not have it.",
        detail="In nanoseconds.",
        authorities=(
            Authority("TuneD mssql", "500000", sources.TUNED),
            Authority("TuneD postgresql", "50000000", sources.TUNED),
        ),
        sources=(sources.KERNEL_SCHED_DEBUG,),
        risk="medium",
        risk_text="A task waits for its old CPU while others are idle.",
        lifetime=_SCHEDULER_MOVED,
    ),
    _knob(
        id="kernel.sched_wakeup_granularity_ns",
        title="How much earlier a waking task must be due to preempt a running one",
        unit="count",
        recommend=formulas.left_to_its_kernel,
        reason="Older tuning guides set it, but current kernels do not have it.",
        detail="In nanoseconds. The scheduler of Linux 6.6 no longer has this concept.",
        authorities=(
            Authority("TuneD mssql", "2000000", sources.TUNED),
            Authority("ScyllaDB", "450000", sources.SCYLLA),
        ),
        sources=(sources.KERNEL_SCHED_DEBUG,),
        risk="medium",
        risk_text="A woken task waits longer for its turn.",
        lifetime=_SCHEDULER_MOVED,
    ),
)
