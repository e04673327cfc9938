"""Logins: rows equal what the lines of `kinspect read` say, connection by connection, and what the clients did."""

from collections import Counter, defaultdict
from functools import partial

import pytest
from support.captures import CAPTURES, captures, each_folder
from support.client import Client, recorded
from support.pcap import framed, pcap

SASL = ("SaslHandshake", "SaslAuthenticate", "SaslToken")
COUNTS = ("succeeded", "failed", "probably_failed")
HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "auth")


# ---------------------------------------------------------------------- all captures


def key(line):
    """What tells a line from all others."""
    return line["connection_id"], line["timestamp"], line["completed_at"]


def logins(lines):
    """The lines of each login: those of its connection from one handshake to the next."""
    by_connection = defaultdict(list)
    for line in lines:
        if line["request"] is not None:
            by_connection[line["connection_id"]].append(line)
    for found in by_connection.values():
        starts = [number for number, line in enumerate(found) if line["api"] == "SaslHandshake"]
        for start, end in zip(starts, [*starts[1:], len(found)], strict=False):
            yield found[start:end]


def outcome(login, refused):
    """`succeeded`: the client goes on; None: nothing tells. `refused`: ids of what `--errors-only` shows."""
    if any(key(line) in refused and line["outcome"] == "answered" for line in login if line["api"] in SASL):
        return "failed"
    if any(line["api"] == "SaslToken" and line["outcome_reason"] in ("closed", "reset") for line in login):
        return "probably_failed"
    tokens = [line for line in login if line["api"] in SASL[1:]]
    goes_on = [line for line in login if line["api"] not in (*SASL, "ApiVersions")]
    return "succeeded" if tokens and any(line["outcome"] == "answered" for line in goes_on) else None


@each_folder
def test_counts_are_those_of_the_lines(lines, rows, folder):
    for capture in captures(folder):
        found = [*logins(lines(capture))]
        refused = {key(line) for line in lines("--errors-only", capture)} if found else set()
        expected = Counter()
        for login in found:
            how = outcome(login, refused)
            if how is not None:
                expected[login[0]["client"]["id"], how] += 1
        counted = Counter()
        for row in rows(capture):
            for how in COUNTS:
                counted[row["client_id"], how] += row[how]
        for client, how in {*expected, *counted}:
            if how == "succeeded":
                # Some clients say nothing more.
                assert counted[client, how] >= expected[client, how], (capture, client)
            elif not client or not client.startswith(("sw-", "d2-")):
                # Sweeps send the messages of logins to a listener without any.
                assert counted[client, how] == expected[client, how], (capture, client, how)


# ---------------------------------------------------------------------- what the clients did


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        ("0.10.0.1/sasl-plain-bad.pcap", {("alice", "PLAIN"): (0, 0, 3)}),
        ("0.11.0.3/sasl-plain-bad.pcap", {("carol", "PLAIN"): (0, 0, 6)}),
        ("2.8.2/sasl-scram-sha-512-bad.pcap", {("gina", "SCRAM-SHA-512"): (0, 1, 0)}),
        ("2.8.2/sasl-plain.pcap", {("gina", "PLAIN"): (5, 0, 0)}),
        (
            "3.9.2/sasl_oauthbearer.pcap",
            {("oauthuser", "OAUTHBEARER"): (4, 1, 0), (None, "GSSAPI"): (0, 1, 0)},
        ),
    ],
)
def test_users_and_mechanisms(rows, capture, expected):
    found = defaultdict(Counter)
    for row in rows(CAPTURES / capture):
        found[row["principal"], row["mechanism"]].update({how: row[how] for how in COUNTS})
    assert {who: tuple(counts[how] for how in COUNTS) for who, counts in found.items()} == expected


def test_reasons_are_the_brokers_words(rows):
    (row,) = rows(CAPTURES / "2.8.2" / "sasl-scram-sha-512-bad.pcap")
    assert row["reasons"] == {
        "Authentication failed during authentication due to invalid credentials"
        " with SASL mechanism SCRAM-SHA-512": 1
    }
    assert {
        reason for row in rows(CAPTURES / "3.9.2" / "sasl_oauthbearer.pcap") for reason in row["reasons"]
    } == {
        "invalid_token",
        "UNSUPPORTED_SASL_MECHANISM",
    }


# ---------------------------------------------------------------------- made conversations


class Login(Client):
    """A client that logs in."""

    def handshake(self, version, mechanism, error=0):
        answer = {"error_code": error, "mechanisms": [mechanism]}
        self.ask(HANDSHAKE, version, {"mechanism": mechanism}, answer)

    def authenticate(self, token, error=0, message=None, answer=b""):
        body = {"error_code": error, "error_message": message, "auth_bytes": answer}
        self.ask(AUTHENTICATE, 0, {"auth_bytes": token}, body)

    def token(self, token, answer=None):
        self.talk.client_sends(framed(token))
        if answer is not None:
            self.talk.broker_sends(framed(answer))

    def go_on(self):
        self.ask(METADATA, 1, {"topics": []}, {"brokers": [], "controller_id": 1, "topics": []})


@pytest.fixture
def row(rows, tmp_path):
    """The only row of some logins."""

    def row(*logins):
        path = tmp_path / "made.pcap"
        path.write_bytes(recorded(*logins))
        (found,) = rows(path)
        return found

    return row


def counts(row):
    return tuple(row[how] for how in COUNTS)


PLAIN = b"\0ada\0pencil-7"


def test_handshake_v1_succeeds_with_the_last_token(row):
    login = Login()
    login.handshake(1, "SCRAM-SHA-256")
    login.authenticate(b"n,,n=ada,r=abc", answer=b"r=abcdef,s=c2FsdA==,i=4096")
    assert counts(row(login)) == (0, 0, 0)
    login.authenticate(b"c=biws,r=abcdef,p=cHJvb2Y=", answer=b"v=dmVyaWZpZXI=")
    assert counts(row(login)) == (1, 0, 0)
    login.go_on()
    assert counts(row(login)) == (1, 0, 0)


def test_another_mechanism_succeeds_when_the_client_goes_on(row):
    login = Login()
    login.handshake(1, "AWS_MSK_IAM")
    login.authenticate(b'{"version":"2020_10_22"}', answer=b"{}")
    assert counts(row(login)) == (0, 0, 0)
    login.go_on()
    login.go_on()
    assert counts(row(login)) == (1, 0, 0)


def test_a_new_handshake_is_another_login(row):
    login = Login()
    for _ in range(3):
        login.handshake(1, "PLAIN")
        login.authenticate(PLAIN)
        login.go_on()
    assert counts(row(login)) == (3, 0, 0)


def test_a_refusal_counts_once(row):
    login = Login()
    login.handshake(1, "OAUTHBEARER")
    login.authenticate(b"n,,\x01auth=Bearer a.b.c\x01\x01", answer=b'{"status":"invalid_token"}')
    login.authenticate(b"\x01", 58, "no")
    found = row(login)
    assert counts(found) == (0, 1, 0)
    assert found["reasons"] == {"invalid_token": 1}


def test_a_raw_token_that_the_broker_closes_on_probably_failed(row):
    login = Login()
    login.handshake(0, "PLAIN")
    login.token(PLAIN)
    login.talk.close()
    assert counts(row(login)) == (0, 0, 1)


def test_a_raw_token_that_was_answered_succeeded(row):
    login = Login()
    login.handshake(0, "PLAIN")
    login.token(PLAIN, b"")
    login.talk.close()
    assert counts(row(login)) == (1, 0, 0)


def test_a_client_that_gave_up_waiting_is_not_refused(row):
    login = Login()
    login.handshake(0, "PLAIN")
    login.token(PLAIN)
    login.wait(30)
    login.talk.close()
    assert counts(row(login)) == (0, 0, 0)


def test_a_token_at_the_captures_end_is_no_failure(row):
    login = Login()
    login.handshake(0, "PLAIN")
    login.token(PLAIN)
    assert counts(row(login)) == (0, 0, 0)


def test_logins_of_all_connections_of_a_client_are_one_row(row):
    good, bad = Login(), Login(port=40001)
    good.handshake(1, "PLAIN")
    good.authenticate(PLAIN)
    bad.handshake(1, "PLAIN")
    bad.authenticate(PLAIN, 58, "wrong")
    found = row(good, bad)
    assert counts(found) == (1, 1, 0)
    assert (found["principal"], found["mechanism"], found["tls"]) == ("ada", "PLAIN", False)
    assert found["reasons"] == {"wrong": 1}


def test_damaged_messages_are_read_as_far_as_they_go(rows, tmp_path):
    login = Login()
    login.handshake(1, "PLAIN")
    login.authenticate(PLAIN, 58, "wrong")
    for cut in range(1, 40):
        path = tmp_path / f"{cut}.pcap"
        path.write_bytes(pcap([each._replace(data=each.data[:-cut]) for each in login.talk.packets]))
        assert all(sum(counts(row)) <= 1 for row in rows(path))
