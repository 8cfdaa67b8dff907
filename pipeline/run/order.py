"""In which order flows begin: one that reads a topic begins after those that fill the topic and end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from highwater.pipeline.run.model import AVAILABLE_NOW, TOPIC_FORMAT, Flow, Pipeline


def stages(pipeline: Pipeline, flows: Sequence[Flow], used: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Names of flows that run at the same time, one list after the other.

    used: the sources of each flow. A flow with an interval never ends, so that nothing waits for it. Flows that fill
    each other's topics run at the same time.
    """
    filled = {
        flow.sink.options.get("topic", ""): flow.name
        for flow in flows
        if flow.sink.format == TOPIC_FORMAT and flow.trigger == AVAILABLE_NOW
    }
    waits = {
        flow.name: {filled[topic] for topic in _topics(pipeline, used[flow.name]) if topic in filled} - {flow.name}
        for flow in flows
    }
    sorter = TopologicalSorter(waits)
    try:
        sorter.prepare()
    except CycleError:
        return [[flow.name for flow in flows]]
    found = []
    while sorter.is_active():
        ready = set(sorter.get_ready())
        found.append([flow.name for flow in flows if flow.name in ready])
        sorter.done(*ready)
    return found


def _topics(pipeline: Pipeline, names: Collection[str]) -> set[str]:
    texts = [
        pipeline.sources[name].options.get("subscribe", "")
        for name in names
        if name in pipeline.sources and pipeline.sources[name].format == TOPIC_FORMAT
    ]
    return {topic.strip() for text in texts for topic in text.split(",")}
