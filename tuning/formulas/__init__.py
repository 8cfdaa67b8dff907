"""The catalogue's formulas: they calculate a knob's value from facts and workload.

There is one module for each module of `tuning.catalogue`. The text of a formula for an `at_least` knob lists the values
whose maximum is taken together with the current value. A formula never raises: without a fact that it needs, it returns
`NotApplicable`.
"""
