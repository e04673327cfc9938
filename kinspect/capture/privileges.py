"""Drops privileges once the socket is open: what is read afterwards comes from strangers (credentials(7),
capabilities(7), Linux's Documentation/userspace-api/no_new_privs.rst)."""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path
from struct import pack

from kinspect.errors import KinspectError

# linux/prctl.h and linux/capability.h.
_SET_NO_NEW_PRIVS = 38
_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_CAPABILITY_VERSION = 0x20080522
_NO_CAPABILITIES = bytes(24)

_HELD = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def drop(environment: Mapping[str, str] = os.environ) -> None:
    """Become the user behind sudo, for good, and give up all capabilities.

    Root without sudo stays root, since no other user is known, but without capabilities. Raises KinspectError if any of
    it failed, so that nothing goes on with more rights than it should; and if modules loaded later could not be read
    any more.
    """
    user = _user_behind_sudo(environment) if os.geteuid() == 0 else None
    try:
        if user is not None:
            _become(*user)
    except OSError as error:
        raise _undropped(error) from None
    drop_capabilities()
    package = Path(__file__).parents[1]
    if not os.access(package, os.R_OK | os.X_OK):
        who = "root without capabilities" if user is None else "the user behind sudo"
        otherwise = "" if user is None else ", or stay root with `env -u SUDO_UID kinspect live ...`"
        raise KinspectError(
            f"cannot drop privileges: {who} cannot read {package}; install kinspect where everybody can{otherwise}"
        )


def drop_capabilities(for_good: bool = True) -> None:
    """Give up all capabilities (Linux). Unless `for_good`, a program that this process starts may get some, as sudo
    does. Raises KinspectError."""
    try:
        if sys.platform == "linux":
            _give_up_capabilities(for_good)
    except OSError as error:
        raise _undropped(error) from None


def _undropped(error: OSError) -> KinspectError:
    return KinspectError(f"cannot drop privileges: {error.strerror or error}")


def _user_behind_sudo(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """User and group id of the caller of sudo; None if it was root, or sudo was not used."""
    try:
        user, group = int(environment["SUDO_UID"]), int(environment["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (user, group) if user > 0 else None


def _become(user: int, group: int) -> None:
    try:
        os.initgroups(pwd.getpwuid(user).pw_name, group)
    except KeyError:
        os.setgroups([group])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    if os.getresuid() != (user,) * 3 or os.getresgid() != (group,) * 3:
        raise OSError("the user could not be changed")


def _give_up_capabilities(for_good: bool) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(pack("=Ii", _CAPABILITY_VERSION, 0))
    for done in (
        library.prctl(_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0),
        library.capset(header, ctypes.create_string_buffer(_NO_CAPABILITIES)),
        library.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) if for_good else 0,
    ):
        if done != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
    )
    if any(int(status[key], 16) for key in _HELD if key in status):
        raise OSError("capabilities are still held")
