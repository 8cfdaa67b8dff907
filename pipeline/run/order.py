"""Orders flows: one that reads a topic begins after all that fill the topic and end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import TopologicalSorter

from highwater.pipeline.run.model import AVAILABLE_NOW, TOPIC_FORMAT, Flow, Pipeline
from highwater.pipeline.run.storage import read_source_options
from highwater.pipeline.sink.options import read_sink_options


def stages(pipeline: Pipeline, flows: Sequence[Flow], used: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Names of flows that run at the same time, one list after the other.

    used: the sources of each flow. A flow with an interval never ends, so that nothing waits for it. Flows that fill
    each other's topics run at the same time, after what each of them waits for.
    """
    fills = {
        flow.name: read_sink_options(flow.sink.options).topic
        for flow in flows
        if flow.sink.format == TOPIC_FORMAT and flow.trigger == AVAILABLE_NOW
    }
    sources = {
        name: read_source_options(source.options, is_stream=source.is_stream).topics
        for name, source in pipeline.sources.items()
        if source.format == TOPIC_FORMAT
    }
    waits = {
        flow.name: {
            writer
            for writer, topic in fills.items()
            if any(sources[name].has(topic) for name in used[flow.name] if name in sources)
        }
        for flow in flows
    }
    before = {name: _reached(name, waits) for name in waits}
    circles = {name: {name} | {each for each in before[name] if name in before[each]} for name in waits}
    sorter = TopologicalSorter(
        {name: set().union(*(waits[each] for each in circle)) - circle for name, circle in circles.items()}
    )
    sorter.prepare()
    found = []
    while sorter.is_active():
        ready = set(sorter.get_ready())
        found.append([flow.name for flow in flows if flow.name in ready])
        sorter.done(*ready)
    return found


def _reached(name: str, waits: Mapping[str, Collection[str]]) -> set[str]:
    """What `name` waits for, and what that waits for."""
    found: set[str] = set()
    left = list(waits[name])
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += waits[each]
    return found
