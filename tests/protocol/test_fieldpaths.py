"""The walk over layouts; and those that are compiled apart for speed, which find what it does, in all layouts."""

import random
import re

from kinspect.kafka.bodysummary import COORDINATOR_KEYS, REQUEST_DATA, RESPONSE_DATA, Walk
from kinspect.kafka.fields import entities
from kinspect.kafka.fields.resources import resource_fields
from kinspect.kafka.view.body import _tag_check
from kinspect.protocol.apikeys import ENVELOPE, FIND_COORDINATOR
from kinspect.protocol.fieldpaths import along, each_field, field_paths
from kinspect.protocol.primitives import UNKNOWN_TAGS

OF_SUMMARIES = (
    *(entities.is_topic, entities.is_partition, entities.is_partition_list, entities.is_group),
    *(entities.is_transactional_id, entities.is_error_code, entities.is_records),
)
OF_APIS = {FIND_COORDINATOR: COORDINATOR_KEYS, ENVELOPE: {REQUEST_DATA, RESPONSE_DATA}}


def any_field(field):
    return True


def test_the_fields_of_a_kind_are_found_in_bodies(layouts, random_body):
    rng = random.Random(5)
    for layout in layouts:
        paths = field_paths(layout, any_field)
        places = sorted(paths.paths())
        assert places == sorted(path for path, _, _ in each_field(layout.fields))
        body = random_body(layout, rng)
        for at, struct, name in paths.walk(body):
            path = f"{at}.{name}".lstrip(".")
            assert re.sub(r"\[\d+\]", "", path) in places
            *_, value = along(body, path)
            assert value is struct[name]


def test_a_field_is_found_beside_another_alone(layouts):
    for layout in layouts:
        beside = field_paths(layout, entities.is_topic_name, entities.is_topic_id)
        assert sorted(beside.paths()) == sorted(
            path
            for path, field, struct in each_field(layout.fields)
            if entities.is_topic_name(field) and any(map(entities.is_topic_id, struct))
        )


def summarised(walk, prefix=""):
    """The paths of the fields that a summary looks at."""
    yield from (prefix + name for name in (walk.topic_name, walk.topic_id) if name)
    yield from (prefix + name for name in (walk.resource or ())[:2])
    for field in walk.fields:
        yield from (
            [prefix + field.name] if field.walk is None else summarised(field.walk, f"{prefix}{field.name}.")
        )


def test_a_summary_looks_at_all_fields_that_it_is_about(layouts):
    for layout in layouts:
        of_api = OF_APIS.get(layout.api_key, ())
        expected = set()
        for path, field, struct in each_field(layout.fields):
            resource = resource_fields([each.name for each in struct])
            if not field.fields and (
                any(kind(field) for kind in OF_SUMMARIES)
                or field.name in of_api
                or (resource is not None and field.name in resource[:2])
            ):
                expected.add(path)
        assert {*summarised(Walk(layout.fields, layout.api_key))} == expected, layout.name


def test_unknown_tags_are_found_in_any_struct(layouts):
    for layout in layouts:
        has_tags = _tag_check(layout.fields)
        arrays = {path: field.array for path, field, _ in each_field(layout.fields)}
        structs = {path for path, field, _ in each_field(layout.fields) if field.fields}
        for path in ("", *structs):
            tagged, bare = {UNKNOWN_TAGS: []}, {}
            while path:
                inner, _, name = path.rpartition(".")
                tagged, bare = ({name: [each] if arrays[path] else each} for each in (tagged, bare))
                path = inner
            assert has_tags(tagged)
            assert not has_tags(bare)
