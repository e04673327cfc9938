"""The server of `kinspect mcp`, on the official SDK: the tools' calls run kinspect, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kinspect import __version__
from kinspect.cli import PROGRAM
from kinspect.cli.commandtools import (
    ROWS,
    ROWS_ASKED,
    ROWS_SCHEMA,
    Finished,
    Granted,
    ToolError,
    check_values,
    listed,
    tools_for,
)
from kinspect.errors import KinspectError

OUT_BYTES = 64 * 1024 * 1024
"""Most bytes that are taken of what a command writes."""
ERR_BYTES = 64 * 1024
AT_ONCE = 2
"""Commands that run at once."""
CAPTURES = "captures"
"""The tool that lists files."""
_LIST = {
    "type": "object",
    "properties": {ROWS_ASKED: ROWS_SCHEMA},
    "required": [],
    "additionalProperties": False,
}
ABOUT = (
    "Captured Apache Kafka traffic, decoded. `captures` lists the files that can be read. Begin with `summary` of one"
    " or several (parts of a rotated capture count as one): each finding has a `command`, the tool that shows more."
    " `read` lists single exchanges (a request with its response), `records` single records, `telemetry` what clients"
    " push, `diff` compares two captures, `check` applies rules, `schema` explains APIs, their fields and error codes."
    " Null is what the capture does not show. Results are cut: `more` says so, and `left_out` by how much; filter"
    " rather than asking for more rows."
)


async def run_command(arguments: list[str], folder: str) -> Finished:
    """Run kinspect there, to its end. It is killed if the call is cancelled, or it writes too much."""
    # -P: no module is loaded from the folder.
    command = [sys.executable, "-P", "-m", "kinspect", *arguments]
    out, err = bytearray(), bytearray()
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, cwd=folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_gather, process.stderr, err, ERR_BYTES)
            await _gather(process.stdout, out, OUT_BYTES, process.kill)
        status = await process.wait()
    return Finished(status, bytes(out), bytes(err), len(out) >= OUT_BYTES)


async def _gather(stream: ByteReceiveStream, into: bytearray, most: int, full: Any = None) -> None:
    """Read a stream to its end, and keep so many bytes. `full`: called once there are more."""
    async for data in stream:
        into += data[: most - len(into)]
        if len(into) >= most and full is not None:
            full()
            return


def made_server(granted: Granted, run: Any = run_command) -> Server[Any]:
    """The server. `run`: runs kinspect with arguments, in a folder."""
    tools = tools_for(granted)
    schemas = {name: tool.schema for name, tool in tools.items()} | {CAPTURES: _LIST}
    room = anyio.Semaphore(AT_ONCE)

    def described(name: str, description: str, writes: bool) -> types.Tool:
        hints = types.ToolAnnotations(
            read_only_hint=not writes, destructive_hint=False, open_world_hint=False
        )
        return types.Tool(name=name, description=description, input_schema=schemas[name], annotations=hints)

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                described(CAPTURES, "List the files that can be read, by path.", False),
                *(described(name, tool.description, tool.writes) for name, tool in tools.items()),
            ]
        )

    async def answered(name: str, given: dict[str, Any]) -> str:
        if name not in schemas:
            raise ToolError(f"there is no tool {name!r}")
        check_values(schemas[name], given, name)
        rows = given.get(ROWS_ASKED, ROWS)
        if name == CAPTURES:
            return await anyio.to_thread.run_sync(listed, granted, rows)
        async with room:
            finished = await run(tools[name].arguments(given), granted.folders[0])
        return tools[name].result(finished, rows)

    async def call_tool(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text, failed = await answered(asked.name, asked.arguments or {}), False
        except (KinspectError, OSError) as error:
            text, failed = str(error), True
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server(
        PROGRAM, version=__version__, instructions=ABOUT, on_list_tools=list_tools, on_call_tool=call_tool
    )


def serve(granted: Granted) -> None:
    """Serve over standard input and output, until the input ends."""

    async def served() -> None:
        server = made_server(granted)
        async with stdio_server() as (source, target):
            await server.run(source, target, server.create_initialization_options())

    anyio.run(served)
