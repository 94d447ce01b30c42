"""How ranks and the head get to know each other, and what strangers get."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import AuthenticationError
from pathlib import Path

import pytest

from distlib.launch import head_connection
from distlib.launch.environment import LaunchError, Placement
from distlib.launch.head import Head
from distlib.launch.head_connection import Hello, Welcome, read_form, write_form
from distlib.launch.rendezvous import FileRendezvous, HeadWord

WORD = HeadWord(["127.0.0.1"], 9, "00", "n1")


@pytest.fixture
def rendezvous(tmp_path: Path) -> FileRendezvous:
    return FileRendezvous(tmp_path / "meeting", "7")


@contextmanager
def listening(key: bytes) -> Iterator[int]:
    """A head that answers one caller. Gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            try:
                head_connection.answer(listener.accept()[0], key).send_bytes(b"welcome")
            except (AuthenticationError, OSError, EOFError):
                pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_both_know_the_secret() -> None:
    with listening(b"secret") as port:
        connection = head_connection.call("127.0.0.1", port, b"secret", 5)
        assert connection.recv_bytes() == b"welcome"
        assert head_connection.addresses_of(connection) == ("127.0.0.1", "127.0.0.1")


def test_a_caller_without_the_secret_gets_nothing() -> None:
    with listening(b"secret") as port, pytest.raises((EOFError, OSError, AuthenticationError)):
        head_connection.call("127.0.0.1", port, b"guessed", 5)


def test_a_stranger_does_not_disturb_the_head(rendezvous: FileRendezvous) -> None:
    """It says something else, or nothing; then the head is as before."""
    with Head(Placement("srun", "7", 0, 1, 0, 1, 0, 1, "n1"), rendezvous) as head:
        gathering = threading.Thread(target=head.gather, args=(60,))
        gathering.start()
        while (known := rendezvous.look()) is None:
            pass
        with socket.create_connection(("127.0.0.1", known.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        connection = head_connection.call("127.0.0.1", known.port, bytes.fromhex(known.key), 5)
        connection.send_bytes(write_form(Hello(0, 1, 0, "n1", os.getpid())))
        assert read_form(Welcome, connection.recv_bytes()).host == "127.0.0.1"
        gathering.join()
        connection.close()
    assert rendezvous.look() is None


@pytest.mark.parametrize(
    ("asked", "cards", "backend", "shared"),
    [
        (None, ["a", "b"], "nccl", False),
        (None, ["a", "a"], "gloo", False),
        (None, ["a", None], "gloo", False),
        (None, ["a"], "gloo", False),
        ("gloo", ["a", "b"], "gloo", False),
        ("nccl", ["a", "b"], "nccl", False),
        ("nccl", ["a", "a"], "nccl", True),
        (None, [str(card) for card in range(17)], "gloo", False),
    ],
)
def test_nccl_is_for_ranks_with_a_card_each(
    rendezvous: FileRendezvous, asked: str | None, cards: list[str | None], backend: str, shared: bool
) -> None:
    size = len(cards)
    with Head(Placement("srun", "7", 0, size, 0, 1, 0, 1, "n1"), rendezvous, backend=asked) as head:
        gathering = threading.Thread(target=head.gather, args=(60,))
        gathering.start()
        while (known := rendezvous.look()) is None:
            pass
        ranks = []
        for rank, card in enumerate(cards):
            ranks.append(head_connection.call("127.0.0.1", known.port, bytes.fromhex(known.key), 5))
            ranks[-1].send_bytes(write_form(Hello(rank, size, 0, "n1", os.getpid(), card)))
        for connection in ranks:
            welcome = read_form(Welcome, connection.recv_bytes())
            assert (welcome.backend, welcome.cards_are_shared) == (backend, shared)
        gathering.join()
        for connection in ranks:
            connection.close()


def test_the_word_is_for_this_user_alone(tmp_path: Path, rendezvous: FileRendezvous) -> None:
    rendezvous.publish(WORD)
    assert rendezvous.look() == WORD
    assert (tmp_path / "meeting").stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "meeting").iterdir()] == [0o600]


def test_word_of_another_start_is_not_read(tmp_path: Path, rendezvous: FileRendezvous) -> None:
    rendezvous.publish(WORD)
    other = FileRendezvous(tmp_path / "meeting", "77")
    assert other.look() is None
    other.clear("")
    assert rendezvous.look() == WORD


def test_a_head_that_ends_late_leaves_the_word_of_the_next_start(tmp_path: Path, rendezvous: FileRendezvous) -> None:
    """torchrun starts all of it again under the same name, and the head before it is still at clearing up."""
    again = FileRendezvous(tmp_path / "meeting", "7")
    for each in (rendezvous, again):
        each.publish(replace(WORD, key=each.key))
        each.open_store(f"{each.key}-gloo", 1).set("a", "b")
    rendezvous.clear(rendezvous.key)
    assert again.look() == replace(WORD, key=again.key)
    again.clear(again.key)
    assert list((tmp_path / "meeting").iterdir()) == []


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(LaunchError, match="others can write to .*open, so .* --rendezvous DIR"):
        FileRendezvous(open_to_all, "7")


def test_a_directory_that_can_not_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="can't use .*file/x to meet in: Not a directory"):
        FileRendezvous(tmp_path / "file" / "x", "7")
