#!/opt/hub/bin/python
"""Who may sign in: those on a list, each with a password. In the hub's container it is the command `admit`.

    admit ada bob          prints a new password for each of them
    admit < names.txt      the same for names that stand in a file, one a line
    admit --remove ada     ends it: ada can start no container any more; what she has written stays
    admit --list           the names

A password has 79 bits, drawn by the machine, and is kept as a hash only: nobody can try them all, or look one up.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any

LIST = Path("/srv/hub/data/passwords.json")
# A name is part of names of folders, volumes and containers, and nbgrader puts "+" behind it.
NAME = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
LONGEST = 32
_SIGNS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another one


def read_list(path: Path = LIST) -> dict[str, list[str]]:
    """Salt and hash of each name's password."""
    return json.loads(path.read_text()) if path.exists() else {}


def write_list(entries: dict[str, list[str]], path: Path = LIST) -> None:
    """Replaces the list at once, readable by its owner only."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(entries, file)
    new.replace(path)


def admit(names: list[str], path: Path = LIST) -> dict[str, str]:
    """Passwords for these names, which from now on count.

    Raises:
        ValueError: somebody can't have such a name. Nobody is admitted then.
    """
    if wrong := [name for name in names if not NAME.fullmatch(name) or len(name) > LONGEST]:
        raise ValueError(
            f"not a name: {', '.join(map(repr, wrong))}. A name has at most {LONGEST} letters a to z and digits, and "
            "between them single signs - or _"
        )
    passwords = {name: "-".join("".join(secrets.choice(_SIGNS) for _ in range(4)) for _ in range(4)) for name in names}
    salts = {name: secrets.token_hex(16) for name in names}
    new = {name: [salts[name], hashed(password, salts[name])] for name, password in passwords.items()}
    write_list(read_list(path) | new, path)
    return passwords


def is_right(name: str, password: str, path: Path = LIST) -> bool:
    """Whether this is the password of somebody on the list."""
    salt, expected = read_list(path).get(name, ["", ""])
    return secrets.compare_digest(hashed(password, salt), expected)


def hashed(password: str, salt: str) -> str:
    """The hash of a password."""
    return hashlib.scrypt(password.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()


def authenticator() -> type:
    """JupyterHub's question to the list, as a class."""
    from jupyterhub.auth import Authenticator

    class OnTheList(Authenticator):
        async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
            name = self.normalize_username(data["username"].strip())
            return name if await asyncio.to_thread(is_right, name, data["password"].strip()) else None

    return OnTheList


def main(words: list[str]) -> int:
    """The command `admit`. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="admit", description="Who may sign in to the hub.")
    parser.add_argument("names", nargs="*", help="without names: those that are typed, one a line")
    parser.add_argument("--remove", action="store_true", help="take these names off the list")
    parser.add_argument("--list", action="store_true", help="print the names on the list")
    options = parser.parse_args(words)
    if options.list:
        print(*sorted(read_list()), sep="\n")
        return 0
    names = options.names or sys.stdin.read().split()
    if options.remove:
        write_list({name: entry for name, entry in read_list().items() if name not in names})
        return 0
    try:
        passwords = admit(names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for name, password in passwords.items():
        print(name, password, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
