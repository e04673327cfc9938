"""The records a manifest's row says were produced and read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.patterns import listed, matcher, numbered, spelt_out


@dataclass
class Expected:
    """Records of some topics (None: of all). `patterns` match every value produced, `values` are those that must
    be seen and `keys` belong to them; `produced` and `consumed` count records, the latter at least that many.
    None says nothing. `others`: values that nothing explains may be there too."""

    topics: set[str] | None
    patterns: list[str]
    values: list[str] | None = None
    keys: list[str | None] | None = None
    produced: int | None = None
    consumed: int | None = None
    codec: set[str] | None = None
    header_names: list[str] | None = None
    others: bool = False

    def __post_init__(self) -> None:
        self.matchers = [matcher(pattern) for pattern in self.patterns]


def expectations(facts: dict[str, Any]) -> Iterator[Expected]:
    """One for each topic or set of topics the facts speak of."""
    topics = facts.get("topics")
    if "pairs" in facts and "0:0" not in facts["pairs"].split():
        return  # a sweep that produces nothing, or something else
    if "records_per_topic" in facts:
        yield from _one_topic_a_codec(facts)
    elif "value" in facts:
        text = ["".join(f"B{i:04d}" for _ in range(12000)) for i in range(facts["records"])]
        yield Expected({facts["topic"]}, text, text, produced=facts["records"])
    elif isinstance(facts.get("records"), str):
        yield _transactions(facts)
    elif isinstance(topics, dict):
        yield from _several_topics(facts)
    elif "value_pattern" in facts and any("codec" in step for step in _steps(facts)):
        for step in _steps(facts):
            pattern = facts["value_pattern"].replace("{codec}", step["codec"])
            yield _numbered(
                {step["topic"]}, pattern, step["produced"], step, facts.get("key_pattern"), step["codec"]
            )
    elif "value_patterns" in facts or "values_seen" in facts:
        yield from _listed_patterns(facts)
    elif isinstance(facts.get("value_pattern"), dict):
        for topic, pattern in facts["value_pattern"].items():
            yield _numbered({topic}, pattern, facts["produced"][topic], {}, None, None)
    elif "value_pattern" in facts:
        yield _one_pattern(facts)


def _steps(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Steps of a recording, where the facts list them."""
    steps = facts.get("steps")
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _numbered(
    topics: set[str],
    pattern: str,
    count: int,
    counts: dict[str, Any],
    key_pattern: str | None,
    codec: str | None,
) -> Expected:
    keys = [numbered(key_pattern, i) for i in range(count)] if key_pattern else None
    return Expected(
        topics,
        [pattern],
        spelt_out(pattern, count),
        keys,
        counts.get("produced"),
        counts.get("consumed"),
        {codec} if codec else None,
    )


def _one_topic_a_codec(facts: dict[str, Any]) -> Iterator[Expected]:
    count = facts["records_per_topic"]
    for codec, topic in facts["topics"].items():
        want = _numbered(
            {topic}, facts["value_pattern"].replace("{codec}", codec), count, {}, facts["key_pattern"], codec
        )
        want.produced = want.consumed = count
        want.header_names = [header.split("=")[0] for header in facts["headers"]]
        yield want


def _transactions(facts: dict[str, Any]) -> Expected:
    """Records like `16 "commit1 <v>" committed`, where <v> follows the value pattern."""
    runs = re.findall(r'(\d+) "(\w+) <v>"', facts["records"])
    extra = re.findall(r"(\d+) '(\w+) <v>'", facts["note_fenced"])
    values = [
        f"{word} {numbered(facts['value_pattern'], i)}" for count, word in runs for i in range(int(count))
    ]
    patterns = [f"{word} {facts['value_pattern']}" for _, word in runs + extra]
    # Of the fenced producer's batches some are refused, and those are not counted.
    return Expected({facts["topic"]}, patterns, values, consumed=facts["read_committed_got"])


def _several_topics(facts: dict[str, Any]) -> Iterator[Expected]:
    for topic, told in facts["topics"].items():
        count = told["records"] if isinstance(told, dict) else facts["records_each"]
        details = told if isinstance(told, dict) else {}
        runs = len(details["compression"]) if isinstance(details.get("compression"), list) else 1
        without_value = details.get("tombstone_index")
        values = [numbered(facts["value_pattern"], i) for i in range(count // runs) if i != without_value]
        yield Expected({topic}, [facts["value_pattern"]], values, produced=count)


def _listed_patterns(facts: dict[str, Any]) -> Iterator[Expected]:
    totals: Counter[str] = Counter()
    for step in _steps(facts):
        totals.update({key: value for key, value in step.items() if isinstance(value, int)})
    patterns = facts.get("value_patterns")
    if isinstance(patterns, dict):
        for topic, text in patterns.items():
            found = listed(text)
            values = [value for pattern in found for value in spelt_out(pattern, None) or ()]
            if isinstance(facts.get("produced"), int):
                values = spelt_out(found[0], facts["produced"]) or []
            if totals.get("idempotent_produced") and text == "in-{i}":
                values = spelt_out(text, totals["idempotent_produced"]) or []
            yield Expected({topic}, found, values)
    else:
        found = [pattern for text in patterns or facts["values_seen"] for pattern in listed(text)]
        values = [value for pattern in found for value in spelt_out(pattern, None) or ()]
        yield Expected(
            set(facts["topics"]),
            found,
            values,
            produced=totals.get("produced"),
            consumed=totals.get("consumed"),
            others="values_seen" in facts,
        )


def _one_pattern(facts: dict[str, Any]) -> Expected:
    """One value pattern for the whole capture."""
    text = facts["value_pattern"]
    topics = {facts["topic"]} if "topic" in facts else set(facts["topics"])
    produced = facts.get("produced")
    steps = _steps(facts) or [{}]
    count = next(
        (
            n
            for n in (
                facts.get("records"),
                facts.get("records_in_topic"),
                facts.get("valid_records"),
                produced,
                steps[0].get("produced"),
                facts.get("records_per_produce"),
            )
            if isinstance(n, int)
        ),
        None,
    )
    consumed = next(
        (facts[key] for key in ("consumer_got", "got_lines", "got", "consumed") if key in facts), None
    )
    if text.startswith("cv-"):  # five runs of twelve, numbered by the hundred
        values = [f"cv-{run * 100 + i:04d} compact" for run in range(5) for i in range(12)]
        return Expected(topics, ["cv-%04d compact"], None, others=False, consumed=len(values) // 5)
    found = listed(text) if re.search(r"\{\d|\(|,", text) else [text]
    values = [value for pattern in found for value in spelt_out(pattern, count) or ()]
    keys = _keys(facts, count)
    tombstone = facts.get("tombstone_index")
    if tombstone is not None:
        del values[tombstone]
        keys = None if keys is None else keys[:tombstone] + keys[tombstone + 1 :]
    codec = facts.get("compression")
    return Expected(
        topics,
        found,
        values or None,
        keys if values and keys and len(keys) == len(values) else None,
        produced=sum(produced.values()) if isinstance(produced, dict) else produced or facts.get("records"),
        consumed=consumed if isinstance(consumed, int) else None,
        codec=set([codec] if isinstance(codec, str) else codec) if codec else None,
    )


def _keys(facts: dict[str, Any], count: int | None) -> list[str | None] | None:
    pattern = facts.get("key_pattern")
    if pattern is None or count is None:
        return None
    text, _, condition = pattern.partition(" (null when i%")
    if not condition:
        return [numbered(text, i) for i in range(count)]
    divisor, rest = map(int, condition.rstrip(")").split("=="))
    return [None if i % divisor == rest else numbered(text, i) for i in range(count)]
