"""Captured messages and their pairs, with the state that all of a run share: ends, names, order."""
