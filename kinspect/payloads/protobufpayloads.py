"""Protobuf, by schemas as text, which protoc reads, or as registries have them too, as a descriptor in base64."""

from __future__ import annotations

import os
import re
import tempfile
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from kinspect.errors import KinspectError
from kinspect.payloads.jsonvalue import printed
from kinspect.payloads.payloaddecoder import DecodedText, SchemaDecoder

MAIN = "kinspect-schema.proto"
"""The name of the schema's own file: no import has it."""
WELL_KNOWN = "any source_context type api duration empty field_mask struct timestamp wrappers".split()
MOST_INDEXES = 100
_FAULT = re.compile(r"^.*\.proto:.*$|^/.*$", re.M)


def open_schema(text: str, referenced: dict[str, str], files: dict[str, str]) -> SchemaDecoder:
    """The decoder of a schema."""
    descriptor = _descriptor(MAIN, text)
    if descriptor is None:
        texts = {name: each for name, each in files.items() if name.endswith(".proto")}
        found = _compiled({**texts, **referenced, MAIN: text})
    else:
        others = (_descriptor(name, each) for name, each in referenced.items())
        found = [*_well_known(), *(each for each in others if each is not None), descriptor]
    pool = descriptor_pool.DescriptorPool()
    for each in found:
        pool.Add(each)
    main = found[-1]
    pool.FindFileByName(main.name)

    def decode(data: bytes, rest: bytes | None) -> DecodedText:
        indexes, start = _indexes(data if rest is None else rest)
        if rest is None:
            data = data[start:]
        name = _message_name(main, indexes)
        message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
        message.ParseFromString(data)
        size = message.ByteSize()
        value = json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=pool,
        )
        message.DiscardUnknownFields()
        unknown = size - message.ByteSize()
        problem = f"{unknown:,} bytes are of fields that its schema does not have" if unknown else None
        return DecodedText(printed(value), name, problem)

    return decode


def _descriptor(name: str, text: str) -> Any:
    """The descriptor that a text has as base64; None if it is no base64 of one."""
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (Base64Error, ValueError, DecodeError):
        return None
    found.name = name
    return found


def _well_known() -> Iterable[Any]:
    from google.protobuf import descriptor_pool as pools

    for name in WELL_KNOWN:
        __import__(f"google.protobuf.{name}_pb2")
        found = descriptor_pb2.FileDescriptorProto()
        pools.Default().FindFileByName(f"google/protobuf/{name}.proto").CopyToProto(found)
        yield found


def _compiled(texts: dict[str, str]) -> list[Any]:
    """The descriptors of the last of these files, and of all that it imports before it."""
    import grpc_tools
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
        for name, text in texts.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\0" in name:
                raise KinspectError(f"{name!r} is no name of a file to import")
            place = Path(folder, "in", path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        out, told = Path(folder, "out"), Path(folder, "told")
        known = Path(grpc_tools.__file__).parent / "_proto"
        arguments = [f"-I{folder}/in", f"-I{known}", f"--descriptor_set_out={out}", "--include_imports", MAIN]
        errors = os.open(told, os.O_WRONLY | os.O_CREAT, 0o600)
        saved = os.dup(2)
        try:
            os.dup2(errors, 2)
            status = protoc.main(["protoc", *arguments])
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.close(errors)
        if status:
            faults = _FAULT.findall(told.read_text("utf-8", "replace").replace(f"{folder}/in/", ""))
            raise KinspectError(
                faults[0].replace(f"{MAIN}:", "line ") if faults else "protoc says nothing of it"
            )
        return [*descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file]


def _indexes(data: bytes) -> tuple[list[int], int]:
    """The indexes of the message, of the outermost first, and where they end. 0 alone is the first message."""
    count, place = _varint(data, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise KinspectError(f"{count} indexes of a message")
    indexes = []
    for _ in range(count):
        index, place = _varint(data, place)
        indexes.append(index)
    return indexes or [0], place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if place >= len(data):
            raise KinspectError("the message's indexes are cut off")
        value |= (data[place] & 0x7F) << shift
        place += 1
        if data[place - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), place
    raise KinspectError("no index of a message")


def _message_name(file: Any, indexes: list[int]) -> str:
    messages, names = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if not 0 <= index < len(messages):
            raise KinspectError(f"there is no message of the indexes {indexes}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)
