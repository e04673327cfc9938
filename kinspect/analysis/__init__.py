"""Accumulators over many exchanges.

Each has `add`, `merge` (as if everything added to the other one had been added to this one) and `result`. They know no
clock, and none of them grows beyond its stated cap.
"""
