"""Completeness and identity of the files of a watched folder."""

import gzip
import os
import subprocess
import sys
from importlib import import_module

import pytest
from support.pcap import Packet, pcap

from kinspect.errors import CaptureError, KinspectError

pytestmark = pytest.mark.tools

NOW = 1_800_000_000


@pytest.fixture
def watched(tmp_path):
    """A folder and its clock."""
    module = import_module("kinspect.spark.streaming.watchedfolder")
    clock = [float(NOW)]
    return module.WatchedFolder(str(tmp_path), 60.0, lambda: clock[0]), clock


def capture(folder, name, first, *, age=1.0, packets=1, now=NOW):
    """Writes a capture whose first packet is at `first` seconds; the file was written `age` seconds ago."""
    path = folder / name
    data = pcap([Packet((first + number) * 1_000_000, b"\0" * 60) for number in range(packets)])
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    os.utime(path, (now - age, now - age))
    return path


def complete(folder):
    return [os.path.basename(found.path) for found in folder.look() if found.complete]


def test_a_file_is_complete_when_it_was_quiet(watched, tmp_path):
    folder, clock = watched
    capture(tmp_path, "cap.pcap", 100, age=59)
    assert complete(folder) == []
    clock[0] += 1
    assert complete(folder) == ["cap.pcap"]


def test_a_file_that_the_storages_clock_puts_ahead_is_complete_when_it_was_seen_so_long(watched, tmp_path):
    folder, clock = watched
    capture(tmp_path, "cap.pcap", 100, age=-3600)
    assert complete(folder) == []
    clock[0] += 60
    assert complete(folder) == ["cap.pcap"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cap00.pcap", "cap01.pcap"),  # -W
        ("cap.pcap", "cap.pcap1"),  # -C
        ("cap-20261121-1000.pcap", "cap-20261121-1005.pcap"),  # -G
        ("cap2.pcap", "cap0.pcap"),  # a ring begins again
    ],
)
def test_a_file_is_complete_when_a_newer_one_is_there(watched, tmp_path, old, new):
    folder, _ = watched
    capture(tmp_path, old, 100)
    capture(tmp_path, new, 200)
    assert complete(folder) == []  # it may be written to yet: nobody has looked twice
    assert complete(folder) == [old]


def test_a_newer_file_without_a_packet_is_newer_too(watched, tmp_path):
    folder, _ = watched
    capture(tmp_path, "cap0.pcap", 100)
    (tmp_path / "cap1.pcap").write_bytes(b"")
    os.utime(tmp_path / "cap1.pcap", (NOW, NOW))
    folder.look()
    assert complete(folder) == ["cap0.pcap"]


def test_a_file_that_still_grows_is_not_complete(watched, tmp_path):
    """Two capture points whose names tell the same series: the newer file of one says nothing of the other."""
    folder, _ = watched
    capture(tmp_path, "broker1.pcap", 100)
    capture(tmp_path, "broker2.pcap", 200)
    folder.look()
    capture(tmp_path, "broker1.pcap", 100, packets=2)
    assert complete(folder) == []
    assert complete(folder) == ["broker1.pcap"]


def test_another_series_tells_nothing(watched, tmp_path):
    folder, _ = watched
    capture(tmp_path, "east.pcap", 100)
    capture(tmp_path, "west.pcap", 200)
    folder.look()
    assert complete(folder) == []


def test_files_are_in_order_of_their_first_packets(watched, tmp_path):
    folder, _ = watched
    for name, first in (("c.pcap", 100), ("a.pcap", 300), ("b.pcap", 200)):
        capture(tmp_path, name, first)
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    assert [(os.path.basename(found.path), found.first) for found in folder.look()] == [
        ("c.pcap", 100 * 10**9),
        ("b.pcap", 200 * 10**9),
        ("a.pcap", 300 * 10**9),
    ]


def test_a_name_that_is_used_again_is_another_file(watched, tmp_path):
    folder, _ = watched
    capture(tmp_path, "cap0.pcap", 100)
    before = folder.look()[0]
    capture(tmp_path, "cap0.pcap", 900, age=0.5)
    after = folder.look()[0]
    assert before.identity == after.identity
    assert before.first != after.first


def test_a_file_keeps_its_identity_when_it_is_compressed(watched, tmp_path):
    folder, _ = watched
    plain = capture(tmp_path, "cap0.pcap", 100)
    before = folder.look()[0]
    packed = capture(tmp_path, "cap0.pcap.gz", 100)
    assert [found.path for found in folder.look()] == [str(plain)]
    plain.unlink()
    after = folder.look()[0]
    assert (after.path, after.identity, after.first) == (str(packed), before.identity, before.first)


def test_what_is_no_capture_says_so(watched, tmp_path):
    folder, _ = watched
    (tmp_path / "notes.txt").write_bytes(b"not a capture at all, but long enough to tell")
    found = folder.look()[0]
    assert "notes.txt" in found.error
    assert found.first is None


def test_what_cannot_be_read_now_is_looked_at_again(watched, tmp_path, monkeypatch):
    """A storage that does not answer for a moment takes no file away for good."""
    folder, _ = watched
    capture(tmp_path, "cap0.pcap", 100)
    module = import_module("kinspect.spark.streaming.watchedfolder")
    with monkeypatch.context() as patched:

        def fails(*_):
            raise CaptureError("does not answer")

        patched.setattr(module, "open_capture", fails)
        assert folder.look()[0].error == "does not answer"
    assert folder.look()[0].error == ""


def test_a_file_that_goes_while_the_folder_is_listed(watched, tmp_path, monkeypatch):
    folder, _ = watched
    kept, gone = capture(tmp_path, "cap1.pcap", 100), capture(tmp_path, "cap0.pcap", 50)
    module = import_module("kinspect.spark.storage")
    is_shown = module._is_shown

    def shown(name):
        gone.unlink(missing_ok=True)
        return is_shown(name)

    monkeypatch.setattr(module, "_is_shown", shown)
    assert [found.path for found in folder.look()] == [str(kept)]


def test_a_file_that_goes_before_it_is_looked_at(watched, tmp_path, monkeypatch):
    folder, _ = watched
    kept, gone = capture(tmp_path, "cap1.pcap", 100), capture(tmp_path, "cap0.pcap", 50, age=600)
    module = import_module("kinspect.spark.streaming.watchedfolder")
    listing = module.listing

    def listed(path):
        found = listing(path)
        gone.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(module, "listing", listed)
    assert [found.path for found in folder.look()] == [str(kept)]


@pytest.mark.parametrize("name", ["a b.pcap", "a#b.pcap", "a%41.pcap", "a?b.pcap", "ä.pcap"])
def test_odd_names_in_a_url(tmp_path, name):
    module, storage = (
        import_module("kinspect.spark.streaming.watchedfolder"),
        import_module("kinspect.spark.storage"),
    )
    capture(tmp_path, name, 100)
    url = f"file://{tmp_path}"
    (found,) = module.WatchedFolder(url).look()
    assert (found.error, found.first is None) == ("", False)
    assert storage.expand([f"{url}/*.pcap"]) == [found.path]
    assert storage.length(found.path) == (tmp_path / name).stat().st_size


def test_no_folder_is_one_clear_error(tmp_path):
    module = import_module("kinspect.spark.streaming.watchedfolder")
    with pytest.raises(CaptureError, match="nowhere"):
        module.WatchedFolder(str(tmp_path / "nowhere")).look()


@pytest.mark.parametrize("folder", ["out[1]", "a*", "hdfs://cluster/{x}"])
def test_an_out_that_spark_would_not_find_again_is_refused(folder):
    with pytest.raises(KinspectError, match="for a pattern; choose another --out"):
        import_module("kinspect.spark.storage").check_out(folder, "parquet")


def test_a_name_that_is_there_is_no_pattern(tmp_path):
    path = tmp_path / "in[1].pcap"
    path.touch()
    assert import_module("kinspect.spark.storage").expand([str(path)]) == [str(path)]


@pytest.mark.parametrize("module", ["kinspect.spark.job", "kinspect.spark.streaming.query"])
def test_tables_of_parquet_need_no_delta_rs(module):
    code = f"import sys; sys.modules['deltalake'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
