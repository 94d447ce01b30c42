"""The secret by which processes of one user know each other, in a file that nobody else can read: `own_secret`.

    ~/.distlib/secret           made when it is first needed; the nodes of a cluster share the home
    DISTLIB_SECRET_FILE=PATH    where they don't: a file with the same content on each node

It never travels: see `handshake`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from distlib.launch.environment import LaunchError

VARIABLE = "DISTLIB_SECRET_FILE"
_FEWEST, _MOST = 16, 4096  # bytes
_MAKE_ONE = f"Make one, and copy it to every node: (umask 077; head -c 32 /dev/urandom > FILE); export {VARIABLE}=FILE"


def secret_path(variables: Mapping[str, str]) -> Path:
    """Where the secret of this user is, or is to be."""
    named = variables.get(VARIABLE)
    return Path(named) if named else Path.home() / ".distlib" / "secret"


def own_secret(variables: Mapping[str, str]) -> bytes:
    """The secret of this user. The one in the home is made if it is not there.

    Args:
        variables: such as os.environ.

    Raises:
        LaunchError: it is not there, can't be made, or somebody else may know it.
    """
    path = secret_path(variables)
    try:
        if not variables.get(VARIABLE):
            _make(path)
        return _read(path)
    except OSError as error:
        raise LaunchError(
            f"can't use the secret file {path}, by which the ranks know each other: {error.strerror}. {_MAKE_ONE}"
        ) from None


def _make(path: Path) -> None:
    """Make the file if it is not there. Of several processes that do so at once, one wins; nobody reads half of it."""
    if os.path.lexists(path):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _read(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        problem = _problem(os.fstat(fd))
        content = b"" if problem else file.read(_MOST)
    if not problem and len(content) < _FEWEST:
        problem = f"has {len(content)} bytes, and at least {_FEWEST} are expected. {_MAKE_ONE}"
    if problem:
        raise LaunchError(f"the secret file {path}, by which the ranks know each other, {problem}")
    return content


def _problem(found: os.stat_result) -> str:
    """Why what was found is no secret of this user; "" if it is one."""
    if not stat.S_ISREG(found.st_mode):
        return f"is not a file. {_MAKE_ONE}"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}, not to you ({os.geteuid()}). {_MAKE_ONE}"
    if found.st_mode & 0o077:
        return "can be read or changed by other users: delete it, since they may know it by now; a new one is made."
    return ""
