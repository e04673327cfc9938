"""Table of secrets, which are printed only with `--show-secrets`.

Sources: KIP-43, KIP-84, KIP-152, KIP-255 (SASL tokens, SCRAM), KIP-48 and KIP-373 (delegation tokens), KIP-554 and
KIP-900 (SCRAM credentials in requests and in metadata records), KIP-226 and KIP-339 (configs), KIP-651 (PEM keys).
User names and token ids are not secrets.
"""

from __future__ import annotations

import re
from typing import Final

SECRET_FIELDS: Final = frozenset(
    {
        "auth_bytes",  # SaslAuthenticate, both ways
        "hmac",  # delegation tokens: Create and Describe responses, Renew and Expire requests
        "salt",  # AlterUserScramCredentials, UserScramCredentialRecord
        "salted_password",  # AlterUserScramCredentials, UserScramCredentialRecord before 3.5
        "server_key",  # UserScramCredentialRecord
        "stored_key",  # UserScramCredentialRecord
    }
)
"""Fields whose bytes are a secret wherever they stand."""

CONFIG_NAME_FIELDS: Final = ("name", "key")
CONFIG_VALUE_FIELD: Final = "value"
"""A struct with a text `value` beside one of these is a config entry: DescribeConfigs and its synonyms, CreateTopics
both ways, AlterConfigs, IncrementalAlterConfigs, a Streams topology's topic configs, ConfigRecord."""

PASSWORD_TYPE: Final = 9
"""`config_type` of a config that Kafka defines as PASSWORD (DescribeConfigs v3+)."""

PASSWORD_CONFIGS: Final = frozenset(
    {
        "delegation.token.master.key",
        "delegation.token.secret.key",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
        "zookeeper.ssl.keystore.password",
        "zookeeper.ssl.truststore.password",
    }
)
"""Kafka's configs of type PASSWORD. A listener's or mechanism's prefix may stand before the name
(`listener.name.internal.scram-sha-256.sasl.jaas.config`)."""

# Parts of names that tell secret configs of plug-ins and of future releases.
_SECRET_WORDS: Final = ("jaas.config", "passphrase", "password", "passwd", "secret")
# A text: `re` compiles it when the first config is seen.
_SECRET_CONFIG: Final = "|".join(
    (*(rf"(?:^|\.){re.escape(n)}$" for n in sorted(PASSWORD_CONFIGS)), *map(re.escape, _SECRET_WORDS))
)


def is_secret_config(name: str | None) -> bool:
    """True if a config of this name holds a secret. A value without a name could be any."""
    return name is None or re.search(_SECRET_CONFIG, name, re.IGNORECASE) is not None


def is_secret_entry(entry: dict[str, object]) -> bool:
    """True if a config entry's value is a secret: the broker marks it so, or its name shows it."""
    return (
        bool(entry.get("is_sensitive"))
        or entry.get("config_type") == PASSWORD_TYPE
        or is_secret_config(_name(entry))
    )


def _name(entry: dict[str, object]) -> str | None:
    for field in CONFIG_NAME_FIELDS:
        name = entry.get(field)
        if isinstance(name, str):
            return name
    return None
