"""Another user of the same machine does not become the one who launches: not by what is public, nor by guessing."""

import base64
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import AuthenticationError, Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest
import torch.distributed

from distlib.launch import head_connection
from distlib.launch.environment import LaunchError, Placement
from distlib.launch.handshake import ProvenConnection, prove_as_head, prove_as_rank
from distlib.launch.head import Head
from distlib.launch.head_connection import Hello, Welcome, read_form, write_form
from distlib.launch.peer_user import is_stranger
from distlib.launch.rendezvous import FileRendezvous, HeadWord, Rendezvous, StoreRendezvous, default_directory
from distlib.launch.secret_file import VARIABLE, own_secret
from distlib.launch.statuses import read_status, write_status
from tests.tools.second_user import NOBODYS, as_second_user, needs_root

SECRET = b"0123456789abcdef"


class Touches:
    """A pickle of it is a program, which makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def store() -> torch.distributed.TCPStore:
    """torchrun's, which everybody can read and write."""
    return torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture(params=["store", "file"])
def meeting(request: pytest.FixtureRequest, store: torch.distributed.TCPStore, tmp_path: Path) -> Rendezvous:
    return meeting_at(store.port) if request.param == "store" else FileRendezvous(tmp_path / "meeting", "7")


def meeting_at(port: int, secret: bytes = SECRET) -> StoreRendezvous:
    placement = Placement("torchrun", "none", 0, 1, 0, 1, 0, 2, "n1", store=("127.0.0.1", port), agent_store=True)
    return StoreRendezvous(placement, secret, "", opens=False, patience=20)


@contextmanager
def gathering(rendezvous: Rendezvous) -> Iterator[HeadWord]:
    """A head that waits for one rank. Gives its word, and in the end lets that rank come."""
    with Head(Placement("torchrun", "none", 0, 1, 0, 1, 0, 1, "n1"), rendezvous) as head:
        thread = threading.Thread(target=head.gather, args=(100,))
        thread.start()
        while (word := rendezvous.look()) is None:
            pass
        yield word
        rank = head_connection.call("127.0.0.1", word.port, bytes.fromhex(word.key), 5)
        rank.send_bytes(write_form(Hello(0, 1, 0, "n1", os.getpid())))
        assert read_form(Welcome, rank.recv_bytes()).host == "127.0.0.1"
        thread.join()
        rank.close()


def knock(port: int, *said: bytes) -> bytes:
    """What somebody gets who connects, says this, and waits for the end."""
    with socket.create_connection(("127.0.0.1", port)) as caller:
        connection = Connection(os.dup(caller.fileno()))
        try:
            for frame in said:
                connection.send_bytes(frame)
            caller.shutdown(socket.SHUT_WR)
            return caller.makefile("rb").read()
        except OSError:
            return b""


# ── what is public ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_torchs_store_does_not_hold_the_secret(store: torch.distributed.TCPStore) -> None:
    with gathering(meeting_at(store.port)) as word:
        public = torch.distributed.PrefixStore("distlib-none", store).get("head")
        assert word.key == SECRET.hex()
        assert SECRET not in public and SECRET.hex().encode() not in public


@pytest.mark.parametrize("of", ["nothing", "no proof", "another secret", "a pickle"])
def test_a_word_that_others_have_put_into_the_store_leads_no_rank_astray(
    of: str, store: torch.distributed.TCPStore, tmp_path: Path
) -> None:
    word = HeadWord(["127.0.0.1"], 9, "", "n1")
    public = torch.distributed.PrefixStore("distlib-none", store)
    if of == "another secret":
        meeting_at(store.port, b"another secret!!").publish(word)
    else:
        pickled = pickle.dumps(Touches(tmp_path / "ran"))
        public.set("head", {"nothing": b"", "no proof": b'{"hosts": []}', "a pickle": pickled}[of])
    assert meeting_at(store.port).look() is None
    meeting_at(store.port).publish(word)
    assert meeting_at(store.port).look() == HeadWord(["127.0.0.1"], 9, SECRET.hex(), "n1")
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_a_caller_without_the_secret_says_is_read_as_a_program(
    meeting: Rendezvous, tmp_path: Path
) -> None:
    program = pickle.dumps(Touches(tmp_path / "ran"))
    with gathering(meeting) as word:
        for frames in ([program], [b"0" * 64, program], [b"", program], [b"#CHALLENGE#" + b"0" * 20, program]):
            knock(word.port, *frames)
    assert not (tmp_path / "ran").exists()


# ── the handshake ────────────────────────────────────────────────────────────────────────────────────────────────────


def shaken(secret: bytes = SECRET) -> tuple[ProvenConnection, Connection, ProvenConnection, Connection]:
    """Two that have proved it, and what is below each."""
    ours, theirs = Pipe()
    made: list[ProvenConnection] = []
    thread = threading.Thread(target=lambda: made.append(prove_as_rank(theirs, secret)))
    thread.start()
    head = prove_as_head(ours, secret)
    thread.join()
    return head, ours, made[0], theirs


def test_what_is_said_arrives_in_both_directions() -> None:
    head, _, rank, _ = shaken()
    for frame in (b"", b"one", b"x" * 100_000):
        head.send_bytes(frame)
        rank.send_bytes(frame + b"!")
        assert (rank.recv_bytes(), head.recv_bytes()) == (frame, frame + b"!")


@pytest.mark.parametrize("forged", ["as another has said it", "again", "changed", "reflected", "of another connection"])
def test_a_frame_that_the_other_one_has_not_sent_there_ends_the_conversation(forged: str) -> None:
    head, below_head, rank, below_rank = shaken()
    rank.send_bytes(b"stop")
    real = below_head.recv_bytes()
    if forged == "as another has said it":
        below_rank.send_bytes(b"kill")
    elif forged == "again":
        below_rank.send_bytes(real)
        assert head.recv_bytes() == b"stop"
        below_rank.send_bytes(real)
    elif forged == "changed":
        below_rank.send_bytes(real[:-1] + b"q")
    elif forged == "reflected":
        head.send_bytes(b"stop")
        below_rank.send_bytes(below_rank.recv_bytes())
    else:
        *_, other, _ = shaken()
        below_other = other._connection
        other._connection = below_rank
        other.send_bytes(b"stop")
        other._connection = below_other
    with pytest.raises(OSError, match="somebody else has spoken on this connection"):
        head.recv_bytes()


@pytest.mark.parametrize("said", [b"", b"0" * 63, b"0" * 64, b"0" * 10_000])
def test_a_head_hangs_up_on_who_does_not_know_the_secret(said: bytes) -> None:
    ours, theirs = Pipe()
    theirs.send_bytes(said)
    with pytest.raises((AuthenticationError, OSError)):
        prove_as_head(ours, SECRET)


@pytest.mark.parametrize("said", [[b""], [b"0" * 32, b""], [b"0" * 32, b"0" * 32], [b"0" * 33]])
def test_a_rank_hangs_up_on_a_head_that_does_not_know_the_secret(said: list[bytes]) -> None:
    ours, theirs = Pipe()
    for frame in said:
        theirs.send_bytes(frame)
    with pytest.raises((AuthenticationError, OSError)):
        prove_as_rank(ours, SECRET)


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_set_up_consists_of_is_data() -> None:
    hello, welcome = Hello(1, 2, 0, "n1", 7, None), Welcome("127.0.0.1", "t", False)
    assert (read_form(Hello, write_form(hello)), read_form(Welcome, write_form(welcome))) == (hello, welcome)
    for wrong in (b"[]", write_form(welcome), b'{"rank": 1}', write_form(hello).replace(b"1,", b'"1",')):
        with pytest.raises(LaunchError, match="Do all nodes have the same version of distlib?"):
            read_form(Hello, wrong)


def test_a_status_comes_back_as_it_was() -> None:
    wait = ("recv", (1, 2), "any", "4 floats", "cell 1, line 2", (3, "all_reduce", "sum"))
    status = ("blocked", 3, [wait], [(1, "3 floats", 0, "cell 2, line 1")], (3, "all_reduce", "sum"))
    assert read_status(write_status(status, [1, 1, 2])) == (status, [1, 1, 2])
    assert read_status(write_status(("idle", 0, [], [], None), [])) == (("idle", 0, [], [], None), [])


# ── a second user ────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_root
def test_a_second_user_is_hung_up_on_before_a_word_is_said(meeting: Rendezvous, tmp_path: Path) -> None:
    """Even one that knows the secret."""
    program = pickle.dumps(Touches(tmp_path / "ran"))

    def attack() -> list[str]:
        silence = knock(word.port, program)
        try:
            head_connection.call("127.0.0.1", word.port, bytes.fromhex(word.key), 5).send_bytes(program)
        except (AuthenticationError, EOFError, OSError) as error:
            return [silence.decode(), type(error).__name__]
        return ["let in"]

    with gathering(meeting) as word:
        silence, error = as_second_user(attack)
    assert silence == "" and error in ("EOFError", "ConnectionResetError", "AuthenticationError")
    assert not (tmp_path / "ran").exists()


@needs_root
def test_a_second_user_is_told_from_oneself_at_either_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        assert (is_stranger(own), is_stranger(accepted)) == (False, False)
        address = listener.getsockname()

        def call() -> bool:
            return is_stranger(socket.create_connection(address))

        caller = threading.Thread(target=lambda: answers.append(as_second_user(call)))
        answers: list[bool] = []
        caller.start()
        accepted, _ = listener.accept()
        assert is_stranger(accepted)
        caller.join()


@needs_root
def test_a_second_user_reads_neither_secret_nor_word(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are this user's alone
        home = Path(folder)
        home.chmod(0o755)
        monkeypatch.setenv("HOME", folder)
        own_secret({})
        rendezvous = FileRendezvous(default_directory(), "7")
        rendezvous.publish(HeadWord(["127.0.0.1"], 9, rendezvous.key, "n1"))
        (word,) = default_directory().iterdir()
        assert as_second_user(lambda: os.listdir(home)) == [".distlib"]
        for path in (home / ".distlib" / "secret", word):
            assert as_second_user(lambda path=path: path.read_bytes().hex()) == "PermissionError"


def test_no_umask_lets_others_replace_where_processes_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    before = os.umask(0)
    try:
        FileRendezvous(default_directory(), "7")
    finally:
        os.umask(before)
    made = (default_directory(), default_directory().parent)
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700, 0o700]


WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.1)\n"
IN_A_FILE = ["--rdzv-conf", "store_type=file", "--rdzv-endpoint"]


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("in_a_file", [True, False])
def test_a_second_user_becomes_who_starts_torchrun_only_where_it_meets_at_a_port(
    in_a_file: bool, tmp_path: Path
) -> None:
    """The lessons let it meet in a file. At a port it reads a pickle from a store that everybody can write to."""
    script, ran, done = tmp_path / "train.py", tmp_path / "ran", tmp_path / "done"
    script.write_text(WAITS)
    meeting = [*IN_A_FILE, str(tmp_path / "meeting")] if in_a_file else ["--rdzv-endpoint", "127.0.0.1:0"]
    command = [sys.executable, "-m", "torch.distributed.run", "--local-addr", "127.0.0.1", "--rdzv-backend", "c10d"]
    torchrun = subprocess.Popen([*command, *meeting, str(script), str(done)], stderr=subprocess.DEVNULL)
    try:
        while not (rank := psutil.Process(torchrun.pid).children()):
            assert torchrun.poll() is None
        own = psutil.Process(torchrun.pid).net_connections()
        ports = sorted({each.laddr.port for each in own if each.status == psutil.CONN_LISTEN})
        assert rank and ports and as_second_user(lambda: _write_a_program(ports, Touches(ran))) == len(ports)
        done.touch()
        torchrun.wait(60)
    finally:
        torchrun.kill()
        torchrun.wait()
    assert ran.exists() == (not in_a_file)
    assert (torchrun.returncode == 0) == in_a_file


def _write_a_program(ports: list[int], program: Touches) -> int:
    """Put a program where torchrun has what it knows of the others, into the stores at these ports."""
    for port in ports:
        store = torch.distributed.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        store.set("torch.rendezvous.none", base64.b64encode(pickle.dumps(program)).decode())
    return len(ports)


COMMANDS = "".join(path.read_text() for path in sorted((Path(__file__).parents[2] / "course").glob("*.py")))


def test_what_the_lessons_run_meets_in_a_file() -> None:
    """What they show for several machines, at FIRST, says what it is for."""
    run = [text for text in re.findall(r"torch\.distributed\.run\b.{0,700}", COMMANDS, re.DOTALL)]
    assert len(run) >= 3 and not [text for text in run if "store_type=file" not in text]
    assert '"--standalone"' not in COMMANDS
    assert set(re.findall(r"--rdzv-endpoint[ =](\S+:\d+)", COMMANDS)) == {"FIRST:29500"}


# ── the secret file ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_secret_in_the_home_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        (made,) = set(pool.map(lambda _: own_secret({}), range(8)))
    assert len(made) == 32
    assert [(path.name, path.stat().st_mode & 0o777) for path in (tmp_path / ".distlib").iterdir()] == [
        ("secret", 0o600)
    ]


def test_a_secret_file_that_is_named_is_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(mode=0o600)
    file.write_bytes(SECRET)
    assert own_secret({VARIABLE: str(file)}) == SECRET


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("missing", "can't use the secret file .*file, by which .*: No such file or directory. Make one, and copy it"),
        ("short", "has 5 bytes, and at least 16 are expected. Make one"),
        ("open", "can be read or changed by other users: delete it"),
        ("link", "can't use the secret file .*: Too many levels of symbolic links"),
        ("pipe", "is not a file"),
        pytest.param("other", "belongs to user 61234, not to you .0.", marks=needs_root),
    ],
)
def test_a_secret_that_may_not_be_one_is_refused_with_what_to_do(fault: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    if fault == "pipe":
        os.mkfifo(file, 0o600)
    elif fault == "link":
        file.symlink_to(tmp_path / "other")
    elif fault != "missing":
        file.write_bytes(b"short" if fault == "short" else SECRET)
        file.chmod(0o644 if fault == "open" else 0o600)
    if fault == "other":
        os.chown(file, NOBODYS, NOBODYS)
    with pytest.raises(LaunchError, match=told):
        own_secret({VARIABLE: str(file)})
