"""Outputs of all captures, as digests: of the kinspect that Python finds first.

python outputs.py CAPTURES
"""

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

from kinspect.cli import main
from kinspect.form import COMPILED

OPTIONS = (
    ["--format", "jsonl", "--emit", "exchange,connection,gap,summary", "--records", "--payload", "text"],
    [
        "--format",
        "jsonl",
        "--fields",
        "api,request.body,response.body.topics.name,response.body.throttle_time_ms",
    ],
    ["--format", "table", "--wide", "--color", "never"],
)


def run(capture: Path, options: list[str]) -> str:
    """The digest of what is printed, on both streams, and of the status."""
    keylog = capture.with_name(capture.name.split(".")[0] + ".keys.log")
    keys = ["--keylog", str(keylog)] if keylog.exists() else []
    with tempfile.TemporaryFile() as out:
        streams = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(out.fileno(), number)
        try:
            status = main(["read", str(capture), *keys, *options])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            for number, stream in zip((1, 2), streams, strict=True):
                os.dup2(stream, number)
                os.close(stream)
        out.seek(0)
        return hashlib.sha256(out.read() + bytes([status])).hexdigest()


def outputs(folder: Path) -> dict[str, str]:
    captures = sorted(folder.glob("*/*.pcap*"))
    return {
        f"{capture.relative_to(folder)} {' '.join(options)}": run(capture, options)
        for capture in captures
        for options in OPTIONS
    }


if __name__ == "__main__":
    print(json.dumps({"compiled": COMPILED, "outputs": outputs(Path(sys.argv[1]))}))
