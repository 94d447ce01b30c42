"""The inboxes of ranks where the system says in other words, as macOS does, that one is full."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from distlib.worlds.real.mailbox import SocketMailbox, open_inbox
from distlib.worlds.real.status_board import StatusBoard


class FullInbox(socket.socket):
    """An inbox to which nothing can be sent. `number`: the error that says so."""

    number = errno.ENOBUFS

    def sendto(self, *arguments: object) -> int:  # type: ignore[override]
        raise OSError(self.number, "no")


def mailbox_with(inbox: socket.socket, directory: Path) -> SocketMailbox:
    return SocketMailbox(inbox, str(directory), 0, 2, StatusBoard(str(directory / "board"), 2, create=True))


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOBUFS])
def test_a_full_inbox_is_no_error(tmp_path: Path, number: int) -> None:
    with FullInbox(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.number = number
        mailbox = mailbox_with(inbox, tmp_path)
        mailbox.wake("look up")
        mailbox.post(1, "hello")
        assert not mailbox.flush(), "the message waits for its turn"


def test_another_error_is_one(tmp_path: Path) -> None:
    with FullInbox(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.number = errno.EMSGSIZE
        with pytest.raises(OSError, match="no"):
            mailbox_with(inbox, tmp_path).wake("look up")


def test_nothing_is_on_its_way_to_an_inbox_that_is_gone(tmp_path: Path) -> None:
    """Else a deadlock of the other ranks would never be found."""
    board = StatusBoard(str(tmp_path / "board"), 2, create=True)
    with open_inbox(str(tmp_path), 0) as inbox:
        mailbox = SocketMailbox(inbox, str(tmp_path), 0, 2, board)
        mailbox.post(1, "hello")
    assert board.on_their_way(board.snapshot()) == set()


def test_a_rank_wakes_itself(tmp_path: Path) -> None:
    with open_inbox(str(tmp_path), 0) as inbox:
        mailbox = mailbox_with(inbox, tmp_path)
        mailbox.wake("look up", 7)
        assert mailbox.next() == ("look up", 7)
