"""The file of `--names`: names of addresses, as a hosts file, as JSON, or as `kubectl get -o json` lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from ipaddress import ip_address
from typing import Any

import orjson

from kinspect.capture.kubernetesnames import is_object, names_of_objects
from kinspect.capture.optionfile import quoted, read_option_file
from kinspect.errors import KinspectError
from kinspect.kafka.wire.hostnames import HostPort
from kinspect.model import NAME_MOST

OPTION = "--names"
MOST_BYTES = 64 << 20
"""Largest size of the file: enough for the pods, services and nodes of a cluster of some thousand pods."""


def load_host_names(path: str) -> dict[HostPort, str]:
    """The names in the file, by address and port, the port None for a name of all of them; the first one counts. Raises
    KinspectError."""
    try:
        text = read_option_file(OPTION, path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise KinspectError(f"{OPTION}: {path}: is not UTF-8 text") from None
    try:
        return _named(_from_json(text) if text.lstrip().startswith("{") else _from_hosts(text))
    except KinspectError as error:
        raise KinspectError(f"{OPTION}: {path}{error}") from None


def host_names(names: Mapping[str, str]) -> dict[HostPort, str]:
    """The same of a dict by address, or by address and port (`10.0.0.1:9092`, `[::1]:9092`). Raises KinspectError."""
    if not all(isinstance(text, str) for pair in names.items() for text in pair):
        raise KinspectError("names: must be addresses and names")
    try:
        return _named((_end(text), name) for text, name in names.items())
    except KinspectError as error:
        raise KinspectError(f"names{error}") from None


def _named(pairs: Iterable[tuple[HostPort, str]]) -> dict[HostPort, str]:
    names: dict[HostPort, str] = {}
    for end, name in pairs:
        if not name or len(name) > NAME_MOST or not name.isprintable():
            raise KinspectError(
                f": {quoted(name)} is no name: give 1 to {NAME_MOST} characters that can be printed"
            )
        names.setdefault(end, name)
    return names


def _from_json(text: str) -> Iterator[tuple[HostPort, str]]:
    try:
        found: dict[str, Any] = orjson.loads(text)
    except ValueError as error:
        raise KinspectError(f": is not JSON: {error}") from None
    if is_object(found):
        yield from names_of_objects(found)
        return
    for key, name in found.items():
        if not isinstance(name, str):
            raise KinspectError(
                ": must be an object of addresses and names, or what kubectl get -o json lists"
            )
        yield _end(key), name


def _from_hosts(text: str) -> Iterator[tuple[HostPort, str]]:
    for number, line in enumerate(StringIO(text), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            # A hosts file may name the interface of an address, which captures do not.
            address = str(ip_address(words[0].partition("%")[0]))
        except ValueError:
            address = ""
        if not address or len(words) == 1:
            raise KinspectError(f", line {number}: must be an address and its names, or one JSON object")
        yield (address, None), words[1]


def _end(text: str) -> HostPort:
    """The address and port that a text names."""
    ip, colon, port = text.rpartition(":")
    try:
        return str(ip_address(text)), None
    except ValueError:
        pass
    try:
        if colon and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16:
            return str(ip_address(ip.removeprefix("[").removesuffix("]"))), int(port)
    except ValueError:
        pass
    raise KinspectError(f": {quoted(text)} is no address, nor one with a port (10.0.0.1:9092)")
