"""Shared parts of the tests: captures built from a script, and the manifests of real ones."""
