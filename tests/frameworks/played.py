"""What the processes of these tests do. A module of its own, so that they need not import pytest."""

import os
import signal
import socket
import subprocess
import sys
import time


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
