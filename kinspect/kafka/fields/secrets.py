"""Table of secrets, which are printed only with `--show-secrets`.

Sources: KIP-43, KIP-84, KIP-152, KIP-255 (SASL tokens, SCRAM), KIP-48 and KIP-373 (delegation tokens), KIP-554 and
KIP-900 (SCRAM credentials in requests and in metadata records), KIP-226 and KIP-339 (configs).
User names and token ids are not secrets.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kinspect.protocol import schema

_OF_RECORDS: Final = frozenset({"server_key", "stored_key"})  # UserScramCredentialRecord
SECRET_FIELDS: Final = _OF_RECORDS.union(*[names.split(",") for names in schema.traits("secrets").values()])
"""Fields whose bytes are a secret wherever they stand, in records too."""

# Of fields that the table has not, the name tells: their definitions are a user's. That of a struct tells of its texts.
_TELLING: Final = r"auth|credential|hmac|key$|pass$|passphrase|passw|private|pwd|salt|secret|signature|token"
_PUBLIC: Final = {
    "string": frozenset("key token_id token_requester_principal_name token_requester_principal_type".split()),
    "struct": frozenset({"credential_infos", "tokens"}),
    "bytes": frozenset({"key"}),
}
"""Fields of Kafka's named like a secret, by type, that hold none, or hold it in a field of their own."""

CONFIG_NAME_FIELDS: Final = ("name", "key")
CONFIG_VALUE_FIELD: Final = "value"
"""A struct with a text `value` beside one of these is a config entry: DescribeConfigs and its synonyms, CreateTopics
both ways, AlterConfigs, IncrementalAlterConfigs, a Streams topology's topic configs, ConfigRecord."""
CONFIG_MARKS: Final = ("is_sensitive", "config_type")
"""Fields of a config entry in which a broker marks a secret."""

TOPICS: Final = frozenset({"__cluster_metadata", "@metadata"})
"""Topics whose records may hold secrets."""

PASSWORD_TYPE: Final = 9
"""`config_type` of a config that Kafka defines as PASSWORD (DescribeConfigs v3+)."""

BROKER: Final = "broker"
"""What has configs for listeners and mechanisms."""

# A listener's or mechanism's own value of a broker config (KIP-103, KIP-85).
_LISTENER: Final = "listener.name."
# Levels, which the configs of broker loggers have as values; the names are those of any classes (KIP-412).
_LEVELS: Final = frozenset({"ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"})

# Texts within the values of public configs: `password=`, `"token": `, JAAS, HTTP's Authorization, PEM.
# `re` compiles them when the first config is seen. No part is without limit: values may be long and hostile.
_SECRET_TEXT: Final = (
    r"(?:passw|passphrase|secret|token|credential|user\.info|authorization|\bpass|\bpwd?)\w{0,40}[\"']?\s{0,8}(?:[=:]|%3[ad])"
    r"|(?:key|sig)[\"']?\s{0,8}(?:=|%3d)|LoginModule\b|\b(?:Basic|Bearer)\s{1,8}[\w+/=.~-]{8}|-----BEGIN "
)
# `controller.quorum.voters` has an `@` behind a colon, as `user:password@` does.
_VOTERS: Final = r"\d{1,10}@[^@,\s]+:\d{1,5}(?:\s*,\s*\d{1,10}@[^@,\s]+:\d{1,5})*"


def is_secret_field(kafka_name: str, kind: str) -> bool:
    """True if a text, bytes or the texts of a struct of this name are a secret. `kind`: the type of the field."""
    if kind not in _PUBLIC:
        return False
    name = schema.snake_case(kafka_name)
    is_told = name in SECRET_FIELDS or re.search(_TELLING, kafka_name.lower()) is not None
    return is_told and name not in _PUBLIC[kind]


def is_public_config(name: str | None) -> bool:
    """True if Kafka itself defines a config of this name, and not as a password."""
    if name is None:
        return False
    known = schema.configs()
    if not name.startswith(_LISTENER):
        return name in known and not known[name].is_password
    _, _, own = name.removeprefix(_LISTENER).partition(".")
    _, _, mechanisms = own.partition(".")
    found = [known[each] for each in (own, mechanisms) if each in known]
    return bool(found) and all(BROKER in one.kinds and not one.is_password for one in found)


def is_secret_value(value: str) -> bool:
    """True if a config's value looks as if a secret were in it: `password=`, `user:password@`, a token, the query of a
    URL."""
    if "?" in value.partition("://")[2]:
        return True
    if 0 <= value.find(":") < value.rfind("@") and not re.fullmatch(_VOTERS, value):
        return True
    return re.search(_SECRET_TEXT, value, re.IGNORECASE) is not None


def is_secret_entry(entry: dict[str, Any], logger: bool = False) -> bool:
    """True if a config entry's value may be a secret: all but those of Kafka's own public configs, where neither the
    broker says so nor the value looks like one. `logger`: it is of a broker's logger, and may be a level."""
    if entry.get("is_sensitive") or entry.get("config_type") == PASSWORD_TYPE:
        return True
    value = entry.get(CONFIG_VALUE_FIELD)
    if logger and value in _LEVELS:
        return False
    return not is_public_config(_name(entry)) or (value is not None and is_secret_value(value))


def _name(entry: dict[str, Any]) -> str | None:
    for field in CONFIG_NAME_FIELDS:
        name = entry.get(field)
        if isinstance(name, str):
            return name
    return None
