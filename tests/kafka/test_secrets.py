"""Nothing secret is shown unasked: one test a row of the table, and what surrounds it."""

from __future__ import annotations

from base64 import b64encode
from time import process_time
from typing import Any

import orjson
import pytest
from exchanges import batch, encoded, exchange, fetched, message, metadata_value

from kinspect.kafka.fields.secrets import is_public_config, is_secret_entry
from kinspect.kafka.view.view import DEFAULT, View
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import Message, encode_request, encode_response, schema

SECRET = b"hunter2-hunter2"
TEXT = SECRET.decode()
EVERYTHING = [
    View(records=True, payload=payload, int64="string") for payload in ("none", "text", "base64", "hex")
]

Path = tuple[str | int, ...]
ROWS: list[tuple[str, int, int, str, dict[str, Any], Path]] = [
    ("SASL token", 36, 2, REQUEST, {"auth_bytes": SECRET}, ("auth_bytes",)),
    ("SASL token v0", 36, 0, REQUEST, {"auth_bytes": SECRET}, ("auth_bytes",)),
    ("SASL answer", 36, 2, RESPONSE, {"auth_bytes": SECRET}, ("auth_bytes",)),
    ("SCRAM salt", 51, 0, REQUEST, {"upsertions": [{"salt": SECRET}]}, ("upsertions", 0, "salt")),
    (
        "salted password",
        51,
        0,
        REQUEST,
        {"upsertions": [{"salted_password": SECRET}]},
        ("upsertions", 0, "salted_password"),
    ),
    ("token made", 38, 3, RESPONSE, {"hmac": SECRET}, ("hmac",)),
    ("token renewed", 39, 2, REQUEST, {"hmac": SECRET}, ("hmac",)),
    ("token expired", 40, 2, REQUEST, {"hmac": SECRET}, ("hmac",)),
    ("token described", 41, 3, RESPONSE, {"tokens": [{"hmac": SECRET}]}, ("tokens", 0, "hmac")),
    (
        "config of type PASSWORD",
        32,
        4,
        RESPONSE,
        {"results": [{"configs": [{"name": "retention.ms", "value": TEXT, "config_type": 9}]}]},
        ("results", 0, "configs", 0, "value"),
    ),
    (
        "sensitive config",
        32,
        1,
        RESPONSE,
        {"results": [{"configs": [{"name": "retention.ms", "value": TEXT, "is_sensitive": True}]}]},
        ("results", 0, "configs", 0, "value"),
    ),
    (
        "config by name",
        32,
        0,
        RESPONSE,
        {"results": [{"configs": [{"name": "ssl.key.password", "value": TEXT}]}]},
        ("results", 0, "configs", 0, "value"),
    ),
    (
        "synonym of a sensitive config",
        32,
        4,
        RESPONSE,
        {
            "results": [
                {
                    "configs": [
                        {
                            "name": "segment.ms",
                            "is_sensitive": True,
                            "synonyms": [{"name": "log.roll.ms", "value": TEXT}],
                        }
                    ]
                }
            ]
        },
        ("results", 0, "configs", 0, "synonyms", 0, "value"),
    ),
    (
        "topic made with a config",
        19,
        7,
        REQUEST,
        {"topics": [{"configs": [{"name": "my.secret", "value": TEXT}]}]},
        ("topics", 0, "configs", 0, "value"),
    ),
    (
        "config of a topic made",
        19,
        7,
        RESPONSE,
        {"topics": [{"configs": [{"name": "segment.ms", "value": TEXT, "is_sensitive": True}]}]},
        ("topics", 0, "configs", 0, "value"),
    ),
    (
        "AlterConfigs",
        33,
        2,
        REQUEST,
        {"resources": [{"configs": [{"name": "SASL.JAAS.config", "value": TEXT}]}]},
        ("resources", 0, "configs", 0, "value"),
    ),
    (
        "IncrementalAlterConfigs",
        44,
        1,
        REQUEST,
        {"resources": [{"configs": [{"name": "listener.name.a.plain.sasl.jaas.config", "value": TEXT}]}]},
        ("resources", 0, "configs", 0, "value"),
    ),
    (
        "topic config of a Streams topology",
        88,
        1,
        REQUEST,
        {
            "topology": {
                "subtopologies": [
                    {"state_changelog_topics": [{"topic_configs": [{"key": "a.password", "value": TEXT}]}]}
                ]
            }
        },
        ("topology", "subtopologies", 0, "state_changelog_topics", 0, "topic_configs", 0, "value"),
    ),
    (
        "unknown tagged field of a message with secrets",
        36,
        2,
        REQUEST,
        {"auth_bytes": b"", "unknown_tagged_fields": [{"tag": 9, "bytes": SECRET}]},
        ("unknown_tagged_fields", 0, "bytes"),
    ),
]


def shows(line: dict[str, Any]) -> bool:
    """True if the secret is anywhere in a line, as text, base64 or hex, also as a part of longer bytes."""
    data = orjson.dumps(line)
    # Base64 of the bytes within other bytes, at each of the three alignments, without the ends others shape.
    shifted = (b64encode(b"\0" * n + SECRET)[4 if n else 0 : -4] for n in range(3))
    return any(form in data for form in (SECRET, SECRET.hex().encode(), *shifted))


def at(value: Any, path: Path) -> Any:
    for name in path:
        value = value[name]
    return value


@pytest.mark.parametrize(
    ("_name", "api_key", "version", "side", "body", "path"), ROWS, ids=[r[0] for r in ROWS]
)
def test_secret_is_null_with_its_size_beside_it(
    _name: str, api_key: int, version: int, side: str, body: dict[str, Any], path: Path
) -> None:
    def made() -> Any:
        return exchange(api_key, version, **{side: body})

    for view in EVERYTHING:
        line = view.exchange(made())
        holder = at(line[side]["body"], path[:-1])
        assert holder[path[-1]] is None
        assert holder[f"{path[-1]}_size"] == len(SECRET)
        assert not shows(line)
    line = View(show_secrets=True).exchange(made())
    assert at(line[side]["body"], path) in (TEXT, b64encode(SECRET).decode())
    assert shows(line)
    names = ".".join(part for part in path if isinstance(part, str))
    projected = View(fields=[f"{side}.body.{names}", f"{side}.body.{names}_size"]).exchange(made())
    assert at(projected[side]["body"], path) is None
    assert not shows(projected)


def test_a_null_secret_is_null_without_a_size() -> None:
    configs = [{"name": "ssl.key.password", "value": None, "is_sensitive": True}]
    line = DEFAULT.exchange(exchange(32, 4, None, {"results": [{"configs": configs}]}))
    shown = line["response"]["body"]["results"][0]["configs"][0]
    assert shown["value"] is None
    assert "value_size" not in shown


def test_sensitivity_ends_with_its_config() -> None:
    configs = [
        {"name": "a.password", "value": TEXT, "synonyms": [{"name": "x", "value": TEXT}]},
        {"name": "retention.ms", "value": "1", "synonyms": [{"name": "log.retention.ms", "value": "1"}]},
    ]
    line = DEFAULT.exchange(exchange(32, 4, None, {"results": [{"configs": configs}]}))
    shown = line["response"]["body"]["results"][0]["configs"][1]
    assert shown["value"] == shown["synonyms"][0]["value"] == "1"


@pytest.mark.parametrize("name", sorted(name for name, one in schema.configs().items() if one.is_password))
def test_passwords_are_not_public_with_any_prefix(name: str) -> None:
    assert not is_public_config(name)
    assert not is_public_config(f"listener.name.sasl_ssl.{name}")
    assert not is_public_config(f"listener.name.sasl_ssl.scram-sha-256.{name}")
    assert not is_public_config(name.upper())


@pytest.mark.parametrize(
    "name",
    [
        *(
            "retention.ms",
            "log.retention.ms",
            "ssl.keystore.location",
            "interval.ms",
            "share.isolation.level",
        ),
        *("sasl.mechanism.inter.broker.protocol", "zookeeper.connect", "remote.storage.enable"),
        "rlmm.config.remote.log.metadata.topic.replication.factor",
        "listener.name.internal.ssl.keystore.location",
        "listener.name.sasl_ssl.plain.sasl.server.callback.handler.class",
    ],
)
def test_kafkas_own_configs_are_public(name: str) -> None:
    assert is_public_config(name)
    assert not is_secret_entry({"name": name, "value": "x"})


@pytest.mark.parametrize(
    "name",
    [
        *(
            "rsm.config.azure.account.key",
            "rsm.config.storage.aws.access.key.id",
            "rsm.config.gcs.credentials",
        ),
        *(
            "confluent.api.key",
            "schema.registry.basic.auth.user.info",
            "metrics.reporter.token",
            "private.key",
        ),
        *(
            "my.plugin.retention.ms",
            "listener.name.a.api.key",
            "listener.name.a.plain.api.key",
            "SCRAM-SHA-256",
        ),
        *(
            "listener.name.a.retention.ms",
            "rlmm.config.x",
            "config.providers.vault.param.auth",
            "ssl.key.x",
            "",
        ),
        *("retention.ms ", "Retention.ms", "listener.name.", None),
    ],
)
def test_what_kafka_does_not_define_may_be_a_secret(name: str | None) -> None:
    assert not is_public_config(name)
    assert is_secret_entry({"name": name, "value": "x"})
    assert is_secret_entry({"key": name, "value": "x"})


@pytest.mark.parametrize(
    "value",
    [
        *("SASL://user:hunter2@h:9092", "https://u:p/w@h/jwks", "a:b@c", "1@h:9093,u:p@h:9093"),
        *("https://h/?access_token=x", 'a required password="x";', "{'client_secret': 'x'}", "AccountKey=x"),
        *(
            "https://h/c?sv=1&sig=abc",
            "https://idp/t?code=SECRET",
            "https://idp/t?client_secret%3Dabc",
            "a,https://h/x,https://idp/t?SECRET",
            "/t?client_secret%3dabc",
            "PASSWORD : x",
            "x pw=y",
            "basic.auth.user.info=a",
            "Bearer abcdefghij",
        ),
        *("a.b.PlainLoginModule required;", "-----BEGIN PRIVATE KEY-----", "Authorization: x"),
    ],
)
def test_values_of_public_configs_that_look_like_secrets(value: str) -> None:
    assert is_secret_entry({"name": "listeners", "value": value})


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "1",
            "SASL_SSL://:9092,PLAINTEXT://h:9093",
            "1@h:9093",
            "1@h:9093, 2@[::1]:9093",
            "0:1,1:2",
            "a@b",
        ),
        *(
            "client_id=app,client_software_name=x",
            "User:alice;User:token-service",
            "/etc/secrets/key.pem",
            "h:2181/k",
        ),
        "https://h/protocol/openid-connect/token",
    ],
)
def test_values_of_public_configs_that_do_not(value: str) -> None:
    assert not is_secret_entry({"name": "listeners", "value": value})


@pytest.mark.parametrize(
    "part", [":", "pass", "password ", "key", "1@h:9,", "://", "Bearer x", " ", "@", "pw"]
)
def test_long_values_take_no_time(part: str) -> None:
    value = part * (1 << 17)
    began = process_time()
    is_secret_entry({"name": "listeners", "value": value})
    assert process_time() - began < 5


SYNONYM = {"name": "rsm.config.azure.account.key", "value": "DEBUG"}


def test_levels_of_loggers_are_shown() -> None:
    name = "kafka.server.ReplicaManager"
    assert not is_secret_entry({"name": name, "value": "DEBUG"}, logger=True)
    assert is_secret_entry({"name": name, "value": "debugging"}, logger=True)
    assert is_secret_entry({"name": name, "value": "INFO", "is_sensitive": True}, logger=True)


def test_only_loggers_have_levels() -> None:
    configs = [{"name": "rsm.config.azure.account.key", "value": "DEBUG", "synonyms": [SYNONYM]}]
    made = exchange(
        32,
        4,
        None,
        {"results": [{"resource_type": number, "configs": configs} for number in (4, 8, 2, 16)]},
    )
    fields = ["response.body.results.configs.value", "response.body.results.configs.synonyms.value"]
    for view in (DEFAULT, View(fields=fields)):
        results = view.exchange(made)["response"]["body"]["results"]
        found = [one["configs"][0] for one in results]
        assert [one["value"] for one in found] == [None, "DEBUG", None, None]
        assert [one["synonyms"][0]["value"] for one in found] == [None, "DEBUG", None, None]
    asked = {"resources": [{"resource_type": number, "configs": configs[:]} for number in (8, 4)]}
    resources = DEFAULT.exchange(exchange(44, 1, asked))["request"]["body"]["resources"]
    assert [one["configs"][0]["value"] for one in resources] == ["DEBUG", None]
    topics = [{"name": "t", "configs": configs}]
    shown = DEFAULT.exchange(exchange(19, 7, {"topics": topics}))["request"]["body"]["topics"]
    assert shown[0]["configs"][0]["value"] is None


# ---------------------------------------------------------------------- metadata records

SCRAM = {
    "name": "alice",
    "mechanism": 1,
    "salt": SECRET,
    "stored_key": SECRET,
    "server_key": SECRET,
    "iterations": 4096,
}
CONFIG = {"resource_type": 4, "resource_name": "1", "name": "ssl.key.password", "value": TEXT}
PLAIN = {"resource_type": 2, "resource_name": "orders", "name": "retention.ms", "value": "1"}


@pytest.mark.parametrize("topic", ["__cluster_metadata", "@metadata"])
@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        (metadata_value(11, "UserScramCredentialRecord", SCRAM), ("salt", "stored_key", "server_key")),
        (metadata_value(4, "ConfigRecord", CONFIG), ("value",)),
    ],
)
def test_metadata_records(topic: str, value: bytes, hidden: tuple[str, ...]) -> None:
    for view in EVERYTHING:
        line = view.exchange(fetched(batch((SECRET, value)), topic))
        assert not shows(line)
        record = line["response"]["body"]["responses"][0]["partitions"][0]["records"]["batches"][0][
            "records"
        ][0]
        assert record["key"] is record["value"] is record["value_encoding"] is None
        assert record["value_size"] == len(value)
        data = record["value_decoded"]["data"]
        assert [data[name] for name in hidden] == [None] * len(hidden)
        assert [data[f"{name}_size"] for name in hidden] == [len(SECRET)] * len(hidden)
    shown = View(records=True, payload="text", show_secrets=True).exchange(
        fetched(batch((SECRET, value)), topic)
    )
    assert shows(shown)


def test_metadata_record_that_cannot_be_read_is_not_shown() -> None:
    for view in EVERYTHING:
        assert not shows(
            view.exchange(fetched(batch((None, b"\x01\x7f\x00" + SECRET)), "__cluster_metadata"))
        )


def test_metadata_record_without_a_secret_is_shown() -> None:
    value = metadata_value(4, "ConfigRecord", PLAIN)
    line = EVERYTHING[3].exchange(fetched(batch((None, value)), "__cluster_metadata"))
    record = line["response"]["body"]["responses"][0]["partitions"][0]["records"]["batches"][0]["records"][0]
    assert record["value"] == value.hex()
    assert record["value_decoded"]["data"]["value"] == "1"


# ---------------------------------------------------------------------- Envelope


def alter_configs(name: str) -> bytes:
    body = {
        "resources": [{"resource_type": 4, "resource_name": "1", "configs": [{"name": name, "value": TEXT}]}]
    }
    return encode_request(Message(44, 1, 3, body, client_id="admin"))


def test_secret_inside_an_envelope() -> None:
    inner = alter_configs("ssl.key.password")
    body = {"request_data": inner, "request_principal": None, "client_host_address": b"\x0a\0\0\1"}
    for view in EVERYTHING:
        line = view.exchange(exchange(58, 0, body))
        shown = line["request"]["body"]
        assert not shows(line)
        assert shown["request_data"] is None
        assert shown["request_data_size"] == len(inner)
        assert shown["request_data_decoded"]["body"]["resources"][0]["configs"][0]["value_size"] == len(
            SECRET
        )
    assert shows(View(show_secrets=True).exchange(exchange(58, 0, body)))


def test_envelope_without_a_secret_is_shown() -> None:
    inner = alter_configs("retention.ms")
    shown = DEFAULT.exchange(exchange(58, 0, {"request_data": inner}))["request"]["body"]
    assert shown["request_data"] == b64encode(inner).decode()
    assert shown["request_data_decoded"]["client_id"] == "admin"


def test_secret_in_the_response_inside_an_envelope() -> None:
    request = encode_request(Message(38, 3, 3, {"renewers": []}, client_id="admin"))
    response = encode_response(Message(38, 3, 3, {"hmac": SECRET}, direction=RESPONSE))
    made = exchange(58, 0, {"request_data": request}, {"response_data": response})
    shown = DEFAULT.exchange(made)["response"]["body"]
    assert shown["response_data"] is None
    assert shown["response_data_decoded"]["body"]["hmac_size"] == len(SECRET)
    assert not shows(DEFAULT.exchange(made))


@pytest.mark.parametrize("cut", [1, 9, 20])
def test_what_cannot_be_read_of_an_envelope_is_not_shown(cut: int) -> None:
    inner = alter_configs("ssl.key.password")[:-cut]
    body = {"request_data": inner, "request_principal": b"\0\5" + SECRET, "client_host_address": SECRET}
    line = DEFAULT.exchange(exchange(58, 0, body, {"response_data": SECRET}))
    assert not shows(line)
    assert line["request"]["body"]["request_data_size"] == len(inner)


def test_broken_messages_with_secrets() -> None:
    for api_key, body in ((36, {"auth_bytes": SECRET}), (58, {"request_data": alter_configs("a.password")})):
        whole = exchange(api_key, 0, body).request
        assert whole is not None
        assert whole.raw is not None
        for size in range(len(whole.raw) + 1):
            cut = exchange(api_key, 0, body)
            assert cut.request is not None
            assert cut.request.raw is not None
            cut.request.raw = cut.request.raw[:size]
            assert not shows(DEFAULT.exchange(cut))
            cut = exchange(api_key, 0, body)
            assert cut.request is not None
            assert cut.request.raw is not None
            cut.request.raw += SECRET
            assert not shows(DEFAULT.exchange(cut))


# ---------------------------------------------------------------------- beside secrets


def test_unknown_tags_of_config_entries_are_hidden() -> None:
    entry = {
        "name": "ssl.key.password",
        "config_operation": 0,
        "value": "x",
        "unknown_tagged_fields": [{"tag": 7, "bytes": b"hunter2"}],
    }
    resource = {"resource_type": 4, "resource_name": "1", "configs": [entry]}
    made = exchange(44, 1, {"resources": [resource], "validate_only": False})
    shown = View().exchange(made)["request"]["body"]["resources"][0]["configs"][0]
    assert shown["unknown_tagged_fields"] == [{"tag": 7, "bytes": None, "bytes_size": 7}]


def test_a_config_cut_before_what_tells_of_it_is_hidden() -> None:
    config = {"name": "custom.credential", "value": "hunter2", "read_only": False, "is_sensitive": False}
    result = {
        "error_code": 0,
        "error_message": None,
        "resource_type": 4,
        "resource_name": "1",
        "configs": [config],
    }
    whole = encoded(RESPONSE, 32, 4, {"throttle_time_ms": 0, "results": [result]})
    assert whole.raw is not None
    for cut in range(1, 20):
        made = exchange(32, 4)
        made.response = message(RESPONSE, 32, 4, whole.raw[:-cut], 0)
        told = orjson.dumps(View().exchange(made))
        if b'"is_sensitive"' not in told:
            assert b"hunter2" not in told


@pytest.mark.parametrize("surplus", [0, 1])
@pytest.mark.parametrize("inferred", [False, True])
def test_unknown_tags_of_what_may_be_another_message_are_hidden(surplus: int, inferred: bool) -> None:
    body = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "unknown_tagged_fields": [{"tag": 7, "bytes": SECRET}],
    }
    made = exchange(12, 4, None, body)
    assert made.response is not None
    assert made.response.raw is not None
    made.response.raw += bytes(surplus)
    made.response.inferred = inferred
    for view in EVERYTHING:
        line = view.exchange(made)
        assert shows(line) is (not surplus and not inferred)
        assert line["response"]["body"]["unknown_tagged_fields"][0]["tag"] == 7
    assert shows(View(show_secrets=True).exchange(made))
