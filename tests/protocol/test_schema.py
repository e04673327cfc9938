import re
import subprocess
import sys

import pytest

from kinspect.protocol import apikeys, schema

SNAKE = re.compile(r"(?<!^)(?=[A-Z])")


def test_names_come_from_file_names_and_agree_with_the_files():
    assert schema.api_names() == {api.key: api.name for api in schema.apis()}
    assert schema.api_name(2) == "ListOffsets"
    assert schema.api_name(4242) is None


def test_every_api_and_version_of_every_release_has_layouts():
    releases = schema.releases()
    assert next(iter(releases)) == "0.8.0"
    for release, spoken in releases.items():
        for key, versions in spoken.items():
            for version in range(versions.low, versions.high + 1):
                for direction in ("request", "response"):
                    assert schema.layout(key, version, direction) is not None, (release, key, version)
    assert releases["3.6.0"][8].unstable


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("3.9.2", "3.9.2"),
        ("3.7", "3.7.0"),
        ("2.8.2", "2.8.0"),
        ("0.10.2.2", "0.10.2.0"),
        ("0.10", "0.10.2.0"),
        ("4.0.1", "4.0.1"),
        ("3.99", None),
        ("9", None),
        ("", None),
        ("x.1", None),
        ("4.4." + "9" * 5000, None),
    ],
)
def test_a_release_is_found_by_its_line_and_by_its_patch_releases(name, release):
    assert schema.release(name) == release


@pytest.mark.parametrize("name", [2, "2", "ListOffsets", "listoffsets", "LIST_OFFSETS", "ListOffset"])
def test_an_api_is_found_by_key_and_by_any_of_its_names(name):
    api = schema.api(name)
    assert api is not None
    assert api.key == 2


def test_what_an_api_tells():
    produce = schema.api("Produce")
    assert produce is not None
    assert produce.versions == tuple(range(14))
    assert produce.flexible_from == 9
    assert produce.listeners == ("broker",)
    assert (produce.since[3], produce.removed[0], produce.deprecated[6]) == ("0.11.0", "4.0", "3.7")
    join = schema.api("JoinGroup")
    assert join is not None
    assert join.absent == {0: "4.0.0", 1: "4.0.0"}
    assert schema.api("NoSuchApi") is None
    assert schema.api(4242) is None


def test_layouts_resolve_the_conditions_of_a_version():
    old, new = schema.layout(1, 4, "request"), schema.layout(1, 17, "request")
    assert old is not None
    assert new is not None
    assert (old.name, old.flexible, new.flexible) == ("FetchRequest", False, True)
    assert [field.name for field in old.fields][:2] == ["replica_id", "max_wait_ms"]
    tags = {field.name: field.tag for field in new.fields if field.tag is not None}
    assert tags == {"cluster_id": 0, "replica_state": 1}
    assert schema.layout(1, 17, "request") is new


def test_removed_versions_still_have_layouts():
    assert schema.layout(4, 7, "request") is not None
    assert schema.layout(0, 0, "request") is not None
    assert schema.layout(11, 0, "response") is not None


@pytest.mark.parametrize("place", [(1, 99), (1, -1), (-1, 0), (95, 0), (4242, 0)])
def test_an_unknown_version_has_no_layout(place):
    assert schema.layout(*place, "request") is None
    assert schema.layouts(*place, "response") == ()


def test_early_access_layouts_follow_the_stable_one():
    labels = [layout.label for layout in schema.layouts(11, 0, "request")]
    assert labels == [None, "0.8.2"]
    labels = [
        layout.label for layout in schema.record_layouts("ConsumerGroupCurrentMemberAssignmentValue", 0)
    ]
    assert labels == [None, "3.5", "3.6–3.7"]


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("isKRaftController", "is_k_raft_controller"),
        ("Enable2Pc", "enable2_pc"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
    ],
)
def test_snake_case(name, snake):
    assert schema.snake_case(name) == snake


def test_record_types():
    topics = schema.record_types("__cluster_metadata")
    assert topics[2] == (2, None, ("TopicRecord",))
    assert topics[14].values == ("ClientQuotaRecord", "QuotaRecord")
    groups = schema.record_types("__consumer_offsets")
    assert groups[1] == (1, "OffsetCommitKey", ("OffsetCommitValue",))
    assert groups[9] == (9, "ShareGroupPartitionMetadataKey", ("ShareGroupPartitionMetadataValue",))
    assert schema.record_types("__transaction_state")[0].key == "TransactionLogKey"
    assert schema.record_types("orders") == {}


def test_every_record_type_has_layouts():
    for topic in ("__cluster_metadata", "__consumer_offsets", "__share_group_state", "__remote_log_metadata"):
        for kind in schema.record_types(topic).values():
            for name in (*filter(None, [kind.key]), *kind.values):
                assert schema.record_layouts(name, 0), name


def test_errors():
    assert schema.error_name(0, None) == "NONE"
    assert schema.error_name(-1, None) == "UNKNOWN_SERVER_ERROR"
    assert schema.error_name(4242, None) == "UNKNOWN_CODE_4242"
    assert schema.error_retriable(3, None)
    assert not schema.error_retriable(1, None)
    assert not schema.error_retriable(4242, None)
    entry = schema.errors()[6]
    assert entry.old_names == {"NOT_LEADER_FOR_PARTITION": "0.8.2-2.5"}
    assert entry.scala_names == {"NotLeaderForPartition": "0.8.0"}


def test_importing_reads_no_table():
    code = (
        "import builtins, io, pathlib\n"
        "def refuse(*a, **k): raise AssertionError(a)\n"
        "pathlib.Path.read_text = pathlib.Path.iterdir = refuse\n"
        "import kinspect.protocol, kinspect.protocol.schema\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_keys_that_code_names_are_those_of_the_table():
    named = {name: key for name, key in vars(apikeys).items() if name.isupper()}
    assert len(named) > 50
    assert named == {SNAKE.sub("_", schema.api_name(key)).upper(): key for key in named.values()}
