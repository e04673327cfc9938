"""No code is run and no path written because of what a capture says."""

import ast
import stat
from pathlib import Path

from support.pcap import Conversation, framed, pcap

from kinspect.protocol import Message, encode_request

PACKAGE = Path(__file__).parents[2] / "kinspect"
IMPORTER = PACKAGE / "protocol" / "importer"
RUNS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "import_module",
    "system",
    "popen",
    "Popen",
    "loads",
    "run_path",
}
MODULES = {"pickle", "marshal", "shelve", "subprocess", "runpy", "ctypes", "importlib"}
WRITES = {
    "write_text",
    "write_bytes",
    "mkdir",
    "makedirs",
    "unlink",
    "rename",
    "replace_file",
    "symlink",
    "rmtree",
}
HARMLESS = {
    "cbor2.loads",
    "json.loads",
    "orjson.loads",
    "re.compile",
    "formatter.write_text",
    "tomllib.loads",
}
ALLOWED = {
    # Decoders, compiled of the schema table.
    "protocol/compiler.py": {"exec", "compile"},
    # Modules of kinspect and rich that are imported late, by names that stand in the source.
    **{
        name: {"import_module"}
        for name in (
            *("__init__.py", "answers/__init__.py", "cli/__init__.py", "cli/preload.py"),
            *("cli/progress.py", "cli/rowsink.py", "protocol/__init__.py"),
            *("formats.py", "answers/answerobject.py"),
            *("payloads/payloaddecoder.py",),
        )
    },
    # Modules of protobuf by names that stand in the source; writes schemas for protoc in a folder made for that, none
    # with a name that leads out of it.
    "payloads/protobufpayloads.py": {"__import__", "mkdir", "write_text"},
    # Moves folders that the run itself wrote, from beside the tables into them: by table and date.
    "spark/folder.py": {"rename"},
    # Tells the source of a stream, in a folder made for that, what was learned.
    "spark/streaming/streamoutput.py": {"write_text"},
    # Makes a file anew that --force overwrites.
    "ownfile.py": {"unlink"},
    # Starts the command that the user gave as --from.
    "capture/sender.py": {"Popen"},
    # Deletes a file that it has just made, if nothing was read for it.
    "cli/outfile.py": {"unlink"},
    # Makes the folder that the user of pytest named for captures.
    "pytestplugin.py": {"mkdir"},
    # Starts kinspect, which captures while a test runs.
    "wiretest/livewire.py": {"Popen"},
    # Deletes files that the run itself made: the oldest of those it was told to keep.
    "capture/save.py": {"unlink"},
    # Gives a compressed file its name, once it is whole; deletes what it was made of, and the oldest.
    "cli/archive.py": {"rename", "unlink"},
    # Makes the folder of --split, as -o names it.
    "cli/topicfiles.py": {"mkdir"},
    # Makes the folder of a lock.
    "tables/lock.py": {"mkdir"},
    # Makes folders of tables, and moves whole files into them; deletes its own, and with --force those of tables.
    "tables/openfolder.py": {"mkdir", "rename", "rmdir", "rmtree", "unlink"},
    # Deletes a file that it has just made and could not write.
    "tui/index/export.py": {"unlink"},
}
ALLOWED_MODULES = {
    # The system's calls that give rights up, which Python has not.
    "capture/privileges.py": {"ctypes"},
    # Starts the command that the user gave as --from, without a shell.
    "capture/sender.py": {"subprocess"},
    # Starts kubectl, with names that the user and the cluster gave.
    "cli/kubectlplugin.py": {"subprocess"},
    # Starts kinspect, with arguments that were checked.
    "cli/mcpserver.py": {"subprocess"},
    # The same, with the interface that a test names.
    "wiretest/livewire.py": {"subprocess"},
}


def sources():
    return [path for path in PACKAGE.rglob("*.py") if IMPORTER not in path.parents]


def called(node):
    """The function of a call as it is written, and its last name."""
    whole = ast.unparse(node.func)
    return whole, node.func.attr if isinstance(node.func, ast.Attribute) else whole


def imported(node):
    """The packages that an import names."""
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").split(".")[0]}
    return {alias.name.split(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()


def test_nothing_runs_code_or_writes_by_name():
    for path in sources():
        name = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not imported(node) & MODULES - {"importlib"} - ALLOWED_MODULES.get(name, set()), name
            if isinstance(node, ast.Call):
                whole, last = called(node)
                if last in RUNS | WRITES and whole not in HARMLESS:
                    assert last in ALLOWED.get(name, ()), f"{name} calls {whole}"


def test_names_in_a_capture_make_no_files(measured, tmp_path, monkeypatch):
    talk = Conversation()
    talk.open()
    body = {"group_id": "/tmp/../etc/x", "generation_id": 1, "member_id": "../../m"}
    talk.client_sends(framed(encode_request(Message(12, 4, 1, body, "../../client; rm -rf $(HOME)"))))
    talk.close()
    directory = tmp_path / "run"
    directory.mkdir()
    monkeypatch.chdir(directory)
    (directory / "made.pcap").write_bytes(pcap(talk.packets))
    assert measured("read", "made.pcap", "-o", "out.jsonl").status == 0
    assert sorted(path.name for path in directory.iterdir()) == ["made.pcap", "out.jsonl"]
    assert stat.S_IMODE((directory / "out.jsonl").stat().st_mode) == 0o600
