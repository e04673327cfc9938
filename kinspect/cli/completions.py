"""Values that a shell completes: words of lists, names of APIs and errors, network interfaces, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

VARIABLE = "_KINSPECT_COMPLETE"
"""The variable of the environment with which the scripts of `kinspect completion` ask for words."""

Completed = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem]"]
_PARTS = re.compile(r"((?:.*,)?!?)(.*)", re.DOTALL)


def words(known: Callable[[], Iterable[str]]) -> Completed:
    """The words that begin as the last of the words with commas between, in any case; a `!` may stand before it."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        match = _PARTS.fullmatch(incomplete)
        assert match is not None, "it matches every text"
        before, begun = match.groups()
        fit = (word for word in known() if word.lower().startswith(begun.lower()))
        return [CompletionItem(before + word) for word in fit]

    return complete


def one_of(*known: str) -> Completed:
    """`words` that are these."""
    return words(lambda: known)


def files(_: click.Context, __: click.Parameter | None, incomplete: str) -> list[CompletionItem]:
    """The files that the shell finds."""
    return _found(incomplete, "file")


def folders(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The folders that the shell finds."""
    return _found(incomplete, "dir")


def releases() -> Iterable[str]:
    from kinspect.protocol import schema

    return schema.releases()


def interfaces() -> Iterable[str]:
    from socket import if_nameindex

    return ["any", *(name for _, name in if_nameindex())]


def _found(incomplete: str, kind: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]
