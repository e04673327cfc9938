"""What holds of every API of the schema table: somebody decided which role it tells, and which of its fields are
secrets, those of record types too. What is new fails here until that is done."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kinspect.kafka.connection.roles import _ROLE
from kinspect.kafka.fields.secrets import SECRET_FIELDS
from kinspect.protocol import schema
from kinspect.protocol.store import FieldDefinition, MessageDefinition

README = Path(__file__).parents[2] / "README.md"

EVERYBODY = {
    *("ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator", "SaslHandshake", "ApiVersions"),
    *("OffsetForLeaderEpoch", "SaslAuthenticate", "FetchSnapshot", "DescribeCluster"),
    *("GetTelemetrySubscriptions", "PushTelemetry"),
}
"""APIs that clients of several roles send; a body may tell more."""

TELLING = re.compile(r"auth|credential|hmac|key\b|passphrase|password|private|salt|secret|signature|token")
NO_SECRETS = {
    *("api_key", "key", "is_future_key"),
    *("authorized_operations", "include_authorized_operations"),
    *("cluster_authorized_operations", "include_cluster_authorized_operations"),
    *("topic_authorized_operations", "include_topic_authorized_operations"),
    *("credential_infos", "tokens", "token_id"),
    *("token_requester_principal_name", "token_requester_principal_type", "token_authenticated"),
}
"""Fields whose name could be a secret's and that hold none, or hold it in a field of their own."""

each_api = pytest.mark.parametrize("api", schema.apis(), ids=lambda api: api.name)


@each_api
def test_the_role_that_an_api_tells_is_known(api: schema.Api) -> None:
    assert (api.key in _ROLE) != (api.name in EVERYBODY), (
        f"which role does {api.name} ({api.key}) tell? A row in kinspect/kafka/connection/roles.py, or EVERYBODY here"
    )


MESSAGES = [
    *(message for api in schema.apis() for message in (api.request, api.response)),
    *filter(None, map(schema.record, schema.record_names())),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_a_field_named_as_a_secret_is_one_or_known_not_to_be(message: MessageDefinition) -> None:
    names = {*_names(message.fields)} - SECRET_FIELDS - NO_SECRETS
    undecided = sorted(name for name in names if TELLING.search(name))
    assert not undecided, (
        f"{message.name}: are {undecided} secrets? SECRET_FIELDS of kinspect/kafka/fields/secrets.py,"
        " or NO_SECRETS here"
    )


def _names(fields: Iterable[FieldDefinition]) -> Iterable[str]:
    for field in fields:
        yield schema.snake_case(field.name)
        yield from _names(field.fields)


def test_the_newest_release_is_named_in_the_readme() -> None:
    newest = list(schema.releases())[-1]
    assert f"releases 0.8.0 to {newest} " in README.read_text("utf-8"), (
        f"README.md: up to which release? {newest}"
    )
