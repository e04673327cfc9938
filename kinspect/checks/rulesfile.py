"""Rules as people write them: tables of TOML, or dicts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kinspect.capture.optionfile import read_option_file
from kinspect.checks.bounds import Bounds, bounds_of
from kinspect.checks.condition import Condition, FilterCondition, KeyCondition, VersionCondition, condition_of
from kinspect.checks.wirerule import RATE_MOST, WireRule
from kinspect.errors import KinspectError
from kinspect.filters.values import errors_about
from kinspect.wording import did_you_mean

BYTES_MOST: Final = 1 << 20
"""Largest file of rules."""
RULES_MOST: Final = 500
NAME_CHARACTERS: Final = 200
RULE: Final = "rule"


def load_rules(option: str, path: str, most: int = 3) -> list[WireRule]:
    """The rules of the file that an option names; `most`: see `rules_of`. Raises KinspectError."""
    text = read_option_file(option, path, BYTES_MOST)
    with errors_about(f"{option}: {path}"):
        return rules_of(text, most)


def rules_of(text: bytes, most: int = 3) -> list[WireRule]:
    """The rules of a file in TOML: a table `[[rule]]` each. `most`: examples that each keeps. Raises KinspectError."""
    try:
        found = tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise KinspectError("is not UTF-8, as TOML is") from None
    except RecursionError:
        raise KinspectError("is nested too deeply") from None
    except ValueError as error:
        raise KinspectError(f"is not TOML: {error}") from None
    tables = found.pop(RULE, None)
    if found or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        odd = f", and nothing else: {next(iter(found))!r}" if found else ""
        raise KinspectError(f"must have a table [[{RULE}]] for each rule{odd}")
    if not 0 < len(tables) <= RULES_MOST:
        raise KinspectError(f"has {len(tables):,} rules: give 1 to {RULES_MOST}")
    rules = [_numbered(number, table, most) for number, table in enumerate(tables, 1)]
    numbers: dict[str, int] = {}
    for number, rule in enumerate(rules, 1):
        if (first := numbers.setdefault(rule.name, number)) != number:
            raise KinspectError(f"rule {number}: has the name of rule {first}, {rule.name!r}")
    return rules


def _numbered(number: int, table: dict[str, Any], most: int) -> WireRule:
    name = table.pop("name", None)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS:
        raise KinspectError(f"rule {number}: needs a name, a text of at most {NAME_CHARACTERS} characters")
    with errors_about(f"rule {number}, {name!r}"):
        return make_rule(name, table, most)


def make_rule(name: str, table: Mapping[str, Any], most: int = 3) -> WireRule:
    """The rule with the keys `where`, `have`, `count`, `per_second` and `versions`. Raises KinspectError."""
    if unknown := [key for key in table if key not in _READERS]:
        hint = (
            did_you_mean(unknown[0], zip(_READERS, _READERS, strict=True)) or f"it has {', '.join(_READERS)}"
        )
        raise KinspectError(f"there is no {unknown[0]!r} in a rule: {hint}")
    made: dict[str, Any] = {}
    for key, value in table.items():
        with errors_about(key):
            made[key] = _READERS[key](value)
    if not made.keys() - {"where"}:
        raise KinspectError("expects nothing: give count, have, per_second or versions")
    _check_fields(made)
    versions = made.pop("versions", None)
    if versions is not None:
        # No more is asked than what is there.
        made.setdefault("count", made.get("count") or (None if "have" in made else Bounds()))
        made["have"] = [*made.get("have", ()), versions]
        if "where" not in made:
            made["where"] = [condition_of("api", [*table["versions"]])]
    return WireRule(name, most=most, **made)


def _conditions(value: Any) -> list[Condition]:
    if not isinstance(value, Mapping) or not value:
        raise KinspectError("must be a table of names and values")
    return [condition_of(name, each) for name, each in _flat(value, "")]


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """The names and values, with dots between those of nested tables: TOML makes tables of dotted keys."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _check_fields(made: Mapping[str, Any]) -> None:
    """Raises KinspectError for a field that no API of a rule has."""
    chosen = [each.apis() for each in made.get("where", ()) if isinstance(each, FilterCondition)]
    apis = next((each for each in chosen if each is not None), None)
    for key in ("where", "have"):
        for condition in made.get(key, ()):
            if isinstance(condition, KeyCondition):
                with errors_about(key):
                    condition.check_field(apis)


def _rate(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= RATE_MOST:
        raise KinspectError(f"{value!r} is not a number from 1 to {RATE_MOST:,}")
    return value


def _versions(value: Any) -> Condition:
    if not isinstance(value, Mapping) or not value:
        raise KinspectError('must be a table of APIs and versions, as { Fetch = "..12" }')
    return VersionCondition({name: bounds_of(each) for name, each in value.items()})


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "where": _conditions,
    "have": _conditions,
    "count": bounds_of,
    "per_second": _rate,
    "versions": _versions,
}
"""What reads each key of a rule."""
