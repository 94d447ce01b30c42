"""What the processes of these tests do. A module of its own, so that they need not import pytest."""

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any


def count(steps: int) -> int:
    for step in range(steps):
        print("step", step)
    return steps


def wait_forever() -> None:
    print("waiting")
    while True:
        time.sleep(0.01)


def start_others_and_wait() -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    wait_forever()


def start_others_and_return() -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])


def fail() -> None:
    raise KeyError("no such key")


def fail_by_itself(how: str) -> None:
    print("so far")
    if how == "exit":
        sys.exit(3)
    if how == "at once":
        os._exit(4)
    os.kill(os.getpid(), signal.Signals[how])


def answer(address: str, word: bytes) -> bytes:
    """Send a word back to whoever connects. Like gRPC: on all interfaces, sharing the address but not the port."""
    host, port = address.split(":")
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", int(port)))
        server.listen()
        print("listening")
        connection, _ = server.accept()
        with connection:
            connection.sendall(word)
            return connection.recv(100)


def ask(address: str) -> bytes:
    host, port = address.split(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                word = connection.recv(100)
                connection.sendall(word.upper())
                return word
        except ConnectionRefusedError:
            time.sleep(0.01)


def which_import() -> str:
    """The import of the framework that this process has."""
    from tests.frameworks import slow_framework

    return slow_framework.IMPORT


def log_level_at_import() -> "str | None":
    from tests.frameworks import slow_framework

    return slow_framework.LEVEL


def draw() -> tuple[float, float]:
    import random

    import numpy

    return random.random(), float(numpy.random.random())


def leave_a_stranger() -> None:
    """Start a process that no longer belongs to this one's group or session, and return."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)


def return_late() -> str:
    """Leave to the end of the process: a line without an end, a thread, an exit handler."""
    import atexit
    import threading

    atexit.register(lambda: print("at exit", end=""))
    threading.Timer(0.2, lambda: print("thread")).start()
    return "returned"


def leave_temporary_files(how: str) -> str:
    """What TensorFlow does for each function that it converts; its exit handler is to remove the file."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="__autograph_generated_file", delete=False) as file:
        print(file.name)
    if how == "at once":
        os._exit(0)
    if how == "killed":
        wait_forever()
    return tempfile.gettempdir()


def import_and_compute(framework: str) -> tuple[bool, float]:
    """Whether the framework is there before anything asks for it, and a sum that it computes on all its threads."""
    import importlib

    is_there = framework in sys.modules
    found = importlib.import_module("jax.numpy" if framework == "jax" else framework)
    matrix = found.ones((500, 500))
    return is_there, float((found.matmul(matrix, matrix) if framework == "jax" else convert(found)(matrix))[0, 0])


def convert(tensorflow: Any) -> Any:
    """A function that AutoGraph converts, which leaves a file."""

    @tensorflow.function
    def square(matrix: Any) -> Any:
        if matrix[0, 0] > 0:
            return tensorflow.matmul(matrix, matrix)
        return matrix

    return square


def compute_and_exit() -> None:
    print(import_and_compute("tensorflow")[1])
    with os.scandir(os.environ["TMPDIR"]) as files:
        print(*[file.path for file in files if "autograph" in file.name])
    os._exit(0)
