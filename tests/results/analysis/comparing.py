"""`compare` with the load of a workload file, as commands and reports call it."""

from __future__ import annotations

from functools import partial

from highwater.bench.workload.requested_load import load_of
from highwater.results.analysis.compare import compare as compare_results

compare = partial(compare_results, load_of=load_of)
