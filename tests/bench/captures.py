"""The captures of a plan, made once: in `build/bench`, named by what makes them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import generate
import messages
import profiles
import secure
from generate import Told
from plan import Capture

DIRECTORY = Path(__file__).parents[2] / "build" / "bench"
"""Folder of generated captures, ignored by git."""


def path_of(capture: Capture) -> Path:
    """The file of a capture, made if it is not there."""
    return made(capture)[0]


def told_of(capture: Capture) -> Told:
    """Contents of a capture, as the generator wrote them."""
    return made(capture)[1]


@cache
def made(capture: Capture) -> tuple[Path, Told]:
    key = f"{_source()} {capture}".encode()
    path = DIRECTORY / f"{capture.profile}-{hashlib.sha256(key).hexdigest()[:12]}.pcap"
    told = path.with_suffix(".told.json")
    if not told.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            found = generate.generate(*capture[:1], out, *capture[1:])
        told.write_text(json.dumps(found._asdict()))
    return path, Told(**json.loads(told.read_text()))


@cache
def _source() -> str:
    made_by = [Path(module.__file__).read_bytes() for module in (generate, messages, profiles, secure)]
    return hashlib.sha256(b"".join(made_by)).hexdigest()
