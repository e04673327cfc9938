"""Clients by connection, and the role that several connections give a client."""

import pytest

from kinspect.analysis import client as module
from kinspect.analysis.client import Client, Connections
from kinspect.answers import open_answer

ONE, OTHER = ("c", "10.0.0.1"), ("d", "10.0.0.1")


@pytest.fixture
def answer():
    return open_answer("clients")


@pytest.fixture
def connections(answer):
    return Connections(answer, answer.records(Client))


def test_a_client_is_new_once_a_connection(connections):
    asked = [("a", ONE), ("a", ONE), ("b", ONE), ("a", OTHER)]
    assert [connections.is_new(*each) for each in asked] == [True, False, True, True]
    assert len(connections.end("a", True)) == 2


def test_a_client_stays_known_behind_the_connections_end(connections):
    connections.is_new("a", ONE)
    assert not connections.fact("a")
    connections.end("a", True)
    assert not connections.is_new("a", ONE)
    assert connections.is_new("a", OTHER)
    assert connections.fact("a")


def test_ended_connections_are_forgotten(connections, answer, monkeypatch):
    monkeypatch.setattr(module, "ENDED_KEPT", 2)
    for name in "abc":
        connections.is_new(name, ONE)
        connections.end(name, True)
    assert [connections.fact(name) for name in "abc"] == [False, True, True]
    assert answer.left_out == 0


def test_too_many_open_connections_are_counted(connections, answer, monkeypatch):
    monkeypatch.setattr(module, "CONNECTIONS_KEPT", 2)
    assert all(connections.is_new(name, ONE) for name in "abc")
    assert answer.left_out == 1
    assert connections.is_new("a", ONE)


@pytest.mark.parametrize(
    ("roles", "role"),
    [
        ({}, None),
        ({"admin": 9, "producer": 1}, "producer"),
        ({"producer": 1, "consumer": 2}, "consumer"),
        ({"producer": 2, "consumer": 2}, "consumer"),
        ({"consumer": 9, "follower": 1}, "follower"),
    ],
)
def test_the_strongest_role_of_most_exchanges(roles, role):
    assert Client(roles=roles).role == role
