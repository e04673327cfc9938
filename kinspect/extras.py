"""Optional libraries, and the extras of the package that install them."""

from __future__ import annotations

from importlib.util import find_spec

from kinspect.errors import MissingLibraryError
from kinspect.wording import all_listed, plural

EXTRAS = {
    "delta": {"deltalake": "deltalake", "pyarrow": "pyarrow"},
    "explore": {"textual": "textual"},
    "lz4": {"lz4": "lz4"},
    "mcp": {"mcp": "mcp"},
    "metrics": {"prometheus_client": "prometheus-client"},
    "otel": {
        "opentelemetry.sdk": "opentelemetry-sdk",
        "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
        "requests": "requests",
    },
    "parquet": {"pyarrow": "pyarrow"},
    "payload": {
        "fastavro": "fastavro",
        "grpc_tools": "grpcio-tools",
        "jsonschema": "jsonschema",
        "google.protobuf": "protobuf",
    },
    "pytest": {"pytest": "pytest"},
    "report": {"jinja2": "jinja2", "matplotlib": "matplotlib"},
    "spark": {"pyspark": "pyspark", "google.protobuf": "protobuf", "pandas": "pandas", "pyarrow": "pyarrow"},
}
"""By extra: each module that is imported, and the package that has it, as `pyproject.toml` names it."""


def need(extra: str, who: str) -> None:
    """Raise MissingLibraryError unless all libraries of an extra are there; none of them is loaded.

    `who`: what needs them, in the words of the user: an option or a command.
    """
    if missing := _missing(extra):
        are = plural(len(missing), "is", "are")
        raise MissingLibraryError(
            f"{who} needs {all_listed(missing)}, which {are} not installed: {install(extra)}"
        )


def has(extra: str) -> bool:
    """True if all libraries of an extra are there; none of them is loaded."""
    return not _missing(extra)


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'kinspect[{extra}]'"


def _missing(extra: str) -> list[str]:
    """The packages of an extra that are not there."""
    return [package for module, package in EXTRAS[extra].items() if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False
