"""The formulas behind the catalogue: facts and workload in, a value with its computation out.

One module for each module of `tuning.catalogue`. The text of a formula for an `at_least` knob is the list of what the
maximum is taken of, besides the current value. A formula never raises: a fact that is None gives `NotApplicable`.
"""
