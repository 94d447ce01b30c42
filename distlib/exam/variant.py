"""Which numbers a sheet has. A sheet for practice names what they come from, and a sheet for an exam does not.

practice   seed 7              ──► the numbers      whoever has the course can print the answers to seed 7
exam       variant A + secret  ──► the numbers      the sheet says "variant A", and the secret stays in a file
"""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

_LENGTH = 32  # bytes of a secret


@dataclass(frozen=True)
class Variant:
    """What the numbers of a sheet come from.

    Attributes:
        name: is printed on the sheet.
        key: decides the numbers, and which questions are chosen.
    """

    name: str
    key: str


def for_practice(seed: int) -> Variant:
    """The variant of a seed, whose answers everybody can print."""
    return Variant(str(seed), str(seed))


def for_exam(name: str, secret: bytes) -> Variant:
    """The variant of a name, whose answers nobody can print who does not have the secret."""
    return Variant(name, hmac.new(secret, name.encode(), "sha256").hexdigest())


def kept_secret(path: Path) -> bytes:
    """Read the secret in a file that only its owner can read; draw one first if there is no file.

    Raises:
        OSError: it can't be read or written.
        ValueError: it is not a secret, or others can read it.
    """
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_LENGTH) + "\n")
    except FileExistsError:
        pass
    if path.stat().st_mode & 0o077:
        raise ValueError(f"{path} can be read by others, who could print the answers: chmod 600 {path}")
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii"))
    except ValueError:
        secret = b""
    if len(secret) != _LENGTH:
        raise ValueError(f"{path} is not a secret of {2 * _LENGTH} hexadecimal digits, as this command writes it")
    return secret
