from kinspect.tls.keylog import CLIENT_RANDOM, SERVER_TRAFFIC, KeyLog

RANDOM, MASTER = "ab" * 32, "cd" * 48
LINE = f"CLIENT_RANDOM {RANDOM} {MASTER}\n"


def test_a_secret_is_found_by_its_use_and_the_client_random():
    log = KeyLog(f"# made by a test\n\n{LINE}SERVER_TRAFFIC_SECRET_0 {RANDOM.upper()} {'EF' * 32}\r\n")
    assert log.secret(CLIENT_RANDOM, bytes.fromhex(RANDOM)) == bytes.fromhex(MASTER)
    assert log.secret(SERVER_TRAFFIC, bytes.fromhex(RANDOM)) == b"\xef" * 32
    assert log.secret(CLIENT_RANDOM, bytes(32)) is None
    assert len(log) == 2


def test_sources_add_up_and_what_is_known_stays():
    log = KeyLog(LINE)
    assert log.add(LINE.replace("cd", "00").encode()) == 0
    assert log.add(f"CLIENT_RANDOM {'01' * 32} {MASTER}") == 1
    assert log.secret(CLIENT_RANDOM, bytes.fromhex(RANDOM)) == bytes.fromhex(MASTER)


def test_lines_that_are_not_needed_and_lines_that_are_none_are_passed_over():
    log = KeyLog()
    log.add(f"EXPORTER_SECRET {RANDOM} {'00' * 48}\nRSA 0011223344556677 {MASTER}\n")
    assert len(log) == 0
    for line in (
        "hello",
        "CLIENT_RANDOM",
        f"CLIENT_RANDOM {RANDOM}",
        f"CLIENT_RANDOM {RANDOM} {MASTER} 00",
        f"CLIENT_RANDOM {RANDOM[:-2]} {MASTER}",
        f"CLIENT_RANDOM {RANDOM} {MASTER[:-2]}",
        f"CLIENT_RANDOM {RANDOM} {MASTER[:-1]}",
        f"CLIENT_RANDOM {RANDOM} {'xy' * 48}",
        f"SOME_SECRET {RANDOM} {MASTER}",
    ):
        log.add(line)
    log.add(b"\xff\xfe\x00 binary \n\x80\n")
    assert len(log) == 0


def test_no_secret_shows():
    log = KeyLog(LINE)
    assert repr(log) == str(log) == "<KeyLog of 1 secrets>"
