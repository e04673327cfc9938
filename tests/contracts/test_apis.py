"""What holds of every API of the schema table: `traits.txt` tells all of it, in words that the code knows, and as the
fields of its messages do. What is new fails here until that is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from kinspect.analysis.grouprows import CLASSIC, SHARE, STREAMS
from kinspect.analysis.grouprows import CONSUMER as CONSUMER_GROUP
from kinspect.answers.transactionsanswer import _ADD as TRANSACTION_APIS
from kinspect.kafka.connection.fetchsessions import FETCH_APIS
from kinspect.kafka.connection.roles import ADMIN, BROKER, CONSUMER, CONTROLLER, FOLLOWER, PRODUCER
from kinspect.kafka.fields.resources import resource_fields
from kinspect.kafka.fields.secrets import SECRET_FIELDS, is_secret_field
from kinspect.kafka.wire.wait import GROUP_WAIT, LONG_POLL
from kinspect.output.actions import TYPES
from kinspect.protocol import schema
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.importer.schematable import UNTOLD, files, read_table
from kinspect.protocol.tabletext import FieldDefinition

README = Path(__file__).parents[2] / "README.md"

TABLE = Path(schema.TABLE)
TRAITS = "traits.txt"
WORDS = {
    "sender": {
        *(PRODUCER, CONSUMER, ADMIN, CONTROLLER, BROKER, "any"),
        *(f"{CONSUMER},{FOLLOWER}", f"any,{FOLLOWER}", f"{PRODUCER},{BROKER}"),
    },
    "wait": {"-", LONG_POLL, GROUP_WAIT},
    "group": {"-", CLASSIC, CONSUMER_GROUP, SHARE, STREAMS, "any"},
    "coordinator": {"-", "group"},
    "member": {"-", "generation", "epoch"},
    "resource": {"-", *TYPES},
    "begins": {"-", "login", "connection", "client"},
    "operation": {"-", "send/send", "poll/receive", "commit/settle", "ack/settle"},
}
"""What the code knows of each trait; of others it takes any word."""
TOLD_BY_FIELDS = {
    ("sender", FOLLOWER): {"ReplicaId", "ReplicaState.ReplicaId"},
    ("wait", LONG_POLL): {"MaxWaitMs"},
}
"""Traits that a request has if, and only if, one of these fields is in it."""

each_api = pytest.mark.parametrize("api", schema.apis(), ids=lambda api: api.name)


@each_api
def test_every_trait_of_an_api_is_told(api: schema.Api) -> None:
    names, *rows = schema._trait_rows()
    (row,) = [row for row in rows if row[0] == str(api.key)]
    told = dict(zip(names, row, strict=True))
    wrong = [name for name, value in told.items() if value not in WORDS.get(name, {value} - {UNTOLD})]
    assert told["api"] == api.name
    assert not wrong, f"which {wrong} does {api.name} have? Its row in {TABLE / TRAITS}"


@each_api
def test_a_trait_is_what_the_fields_of_the_request_tell(api: schema.Api) -> None:
    paths = {path for path, _, _ in each_field(api.request.fields)}
    for (trait, word), fields in TOLD_BY_FIELDS.items():
        has = word in schema.traits(trait).get(api.key, "").split(",")
        assert has == bool(fields & paths), f"{trait} {word}: {TABLE / TRAITS}"


@each_api
def test_an_api_is_about_groups_if_its_request_names_one(api: schema.Api) -> None:
    named = any(field.entity == "groupId" for _, field, _ in each_field(api.request.fields))
    assert named == (schema.trait("group", api.key) is not None), f"{TABLE / TRAITS}"
    assert named or schema.trait("coordinator", api.key) is None, f"{TABLE / TRAITS}"


@each_api
def test_an_api_is_about_resources_if_its_request_names_one(api: schema.Api) -> None:
    structs = [struct for _, _, struct in each_field(api.request.fields)]
    named = any(resource_fields([schema.snake_case(field.name) for field in struct]) for struct in structs)
    assert named == (schema.trait("resource", api.key) is not None), f"{TABLE / TRAITS}"


@each_api
def test_an_api_with_fetch_sessions_or_transactions_is_one_whose_code_knows_them(api: schema.Api) -> None:
    fields = [field for _, field, _ in each_field(api.request.fields)]
    assert (api.key in FETCH_APIS) == any(field.name.endswith("SessionEpoch") for field in fields)
    assert api.key in TRANSACTION_APIS or all(field.entity != "transactionalId" for field in fields)


def test_traits_stand_as_the_importer_writes_them() -> None:
    assert files(read_table(TABLE))[TRAITS] == (TABLE / TRAITS).read_text("utf-8")


@each_api
def test_the_secrets_of_an_api_are_those_of_its_fields_that_are_never_printed(api: schema.Api) -> None:
    names = {*_names(api.request.fields), *_names(api.response.fields)}
    told = schema.traits("secrets").get(api.key)
    assert names & SECRET_FIELDS == set(told.split(",") if told else ()), f"{TABLE / TRAITS}"


MESSAGES = [
    *(message for api in schema.apis() for message in (api.request, api.response)),
    *filter(None, map(schema.record, schema.record_names())),
]


def test_a_field_named_as_a_secret_is_one_or_known_not_to_be() -> None:
    unknown = {
        f"{message.name}.{schema.snake_case(field.name)}"
        for message in MESSAGES
        for _, field, _ in each_field(message.fields)
        if is_secret_field(field.name, "struct" if field.is_struct else field.element)
        and schema.snake_case(field.name) not in SECRET_FIELDS
    }
    assert not unknown, (
        f"are {sorted(unknown)} secrets? The row of its API in {TABLE / TRAITS}, or"
        " SECRET_FIELDS of kinspect/kafka/fields/secrets.py for a record, or _PUBLIC there"
    )


def _names(fields: Sequence[FieldDefinition]) -> Iterable[str]:
    return (schema.snake_case(field.name) for _, field, _ in each_field(fields))


def test_the_newest_release_is_named_in_the_readme() -> None:
    newest = list(schema.releases())[-1]
    assert f"releases 0.8.0 to {newest} " in README.read_text("utf-8"), (
        f"README.md: up to which release? {newest}"
    )
