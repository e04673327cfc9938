"""Modules that a command loads: starting up is most of the time of a short run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kinspect.answers import answers, help_lines

LIBRARIES = ("pyspark", "pyarrow", "pandas", "prometheus_client", "opentelemetry")
"""Those of extras, which nothing loads but what needs them."""
HEAVY = ("rich", "scapy", "orjson", "crc32c", "cramjam", "jsonschema_rs", "textual", *LIBRARIES)

NOT_FOR_A_SMALL_READ = (
    *(f"kinspect.{name}" for name in ("tls.decryptor", "protocol.codec", "protocol.interpreter")),
    *(
        "kinspect.analysis.answer",
        "kinspect.jobs.workerlink",
        "kinspect.jobs.linemerge",
        "kinspect.jobs.worker",
    ),
    *("kinspect.cli.archive", "kinspect.cli.rotated", "kinspect.output.otlp", "kinspect.output.table"),
    *(
        "asyncio",
        "base64",
        "ctypes",
        "decimal",
        "fnmatch",
        "hashlib",
        "importlib.metadata",
        "ipaddress",
        "logging",
        "mmap",
        "multiprocessing",
    ),
    *(
        "pathlib",
        "queue",
        "shlex",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "traceback",
        "urllib",
        "_hashlib",
    ),
    *("backports", "cbor2", "compression", "cramjam", "cryptography", "lz4", "rich", "scapy", "textual"),
    *LIBRARIES,
)
"""Loaded when something in a capture, or an option, needs it: each would cost a read of a few exchanges a part of its
time. What click loads itself does not count."""
CAPTURE = Path(__file__).parents[1] / "captures" / "4.4.0" / "nano.pcap"

SCRIPT = """
import sys
import click
before = set(sys.modules)
from kinspect.cli import main
status = main(sys.argv[2:])
own = sys.modules.keys() - before
found = sorted(set(sys.argv[1].split(",")) & {*own, *(name.partition(".")[0] for name in own)})
print(",".join(found), file=sys.stderr)
sys.exit(status)
"""


def loaded(heavy, *arguments):
    """Packages among `heavy` that a command has loaded when it ends."""
    command = [sys.executable, "-c", SCRIPT, ",".join(heavy), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_command_and_no_library_but_click(option):
    assert loaded((*HEAVY, "kinspect.analysis", "kinspect.kafka", "kinspect.protocol"), option) == ""


@pytest.mark.parametrize("text", [None, b"# not as expected"])
def test_help_has_the_lines_of_the_answers_in_their_order(text, monkeypatch):
    lines = [(name, each.help) for name, each in answers().items()]
    assert [*help_lines.__wrapped__().items()] == lines
    monkeypatch.setattr("pkgutil.get_data", lambda *_: text)
    assert [*help_lines.__wrapped__().items()] == lines


def test_an_answer_as_json_loads_no_other_answer_and_no_rich():
    others = (
        *("rich", "scapy", "textual"),
        *(f"kinspect.answers.{name}answer" for name in ("groups", "auth")),
    )
    assert loaded(others, "topics", "-q", "--format", "json", "-o", os.devnull, "--force", str(CAPTURE)) == ""


def test_importing_the_command_line_loads_no_library_but_click():
    command = [
        sys.executable,
        "-c",
        "import sys, kinspect.cli; print(*{n.partition('.')[0] for n in sys.modules})",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(result.stdout.split())


def test_read_to_jsonl_loads_neither_scapy_nor_rich(tmp_path):
    empty = tmp_path / "empty.pcap"
    # A pcap file header without packets.
    empty.write_bytes(bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000"))
    assert (
        loaded(("rich", "scapy", "textual", *LIBRARIES), "read", "-q", "--format", "jsonl", str(empty)) == ""
    )


def test_a_small_read_to_jsonl_loads_what_it_needs():
    assert (
        loaded(
            NOT_FOR_A_SMALL_READ, "read", "-q", "--format", "jsonl", "-o", os.devnull, "--force", str(CAPTURE)
        )
        == ""
    )


def test_schema_loads_no_library_but_click():
    assert loaded(("rich", "scapy", "orjson", "cramjam", "crc32c"), "schema", "Fetch") == ""


def test_records_loads_what_decodes_payloads_for_schemas_alone():
    libraries = ("fastavro", "jsonschema", "google", "grpc_tools", "kinspect.payloads.payloaddecoder")
    shown = ("records", "-q", "--payload", "auto", "-o", os.devnull, "--force", str(CAPTURE))
    assert loaded(libraries, *shown) == ""


def test_explore_without_textual_says_what_to_install():
    script = (
        "import sys; from importlib import util; real = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'textual' else real(name, *rest)\n"
        "from kinspect.cli import main; sys.exit(main(['explore', 'any.pcap']))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == (
        "kinspect: the explorer needs textual, which is not installed: pip install 'kinspect[explore]'\n"
    )


def test_the_index_of_the_explorer_loads_no_textual():
    script = "import sys, kinspect.tui.index.export, kinspect.tui.index.indexprocess, kinspect.tui.index.exchangefields"
    command = [sys.executable, "-c", f"{script}; sys.exit('textual' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0
