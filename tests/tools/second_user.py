"""A second user of this machine, for tests of what one user can do to another. Needs root."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

NOBODYS = 61_234  # a user id that no system gives anybody
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a second user")


def as_second_user(act: Callable[[], Any], user: int = NOBODYS) -> Any:
    """What `act()` returns in a process of another user: text, numbers, lists of them. An OSError as its name.

    It is forked from this process. So it has all modules that this one has, and can open nothing of this user's.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _tell(writing, act, user)
    os.close(writing)
    with open(reading) as told:
        result = told.read()
    assert os.waitpid(pid, 0)[1] == 0 and result, "the second user's process has failed; its error is above"
    return json.loads(result)


def _tell(writing: int, act: Callable[[], Any], user: int) -> None:
    status = 1
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        try:
            result = act()
        except OSError as error:
            result = type(error).__name__
        os.write(writing, json.dumps(result).encode())
        status = 0
    finally:
        os._exit(status)
