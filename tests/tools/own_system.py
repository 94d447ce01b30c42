"""A small Debian or Ubuntu out of the files of this one, for images of tests: as by debootstrap, without a download.

Taken are the packages that every system has to have, those that are asked for, and all that these need: their files,
dpkg's and apt's records of them, and the few files that exist only since they were installed.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_DOCUMENTS = re.compile(r"/usr/share/(?:doc|man|info|locale|lintian|bash-completion)/.")
_SINCE_INSTALLED = (
    "/etc/nsswitch.conf", "/etc/shells", "/etc/pam.d/common-*", "/etc/alternatives/awk", "/usr/bin/awk",
    "/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources",
    "/etc/apt/keyrings/*", "/etc/apt/trusted.gpg.d/*", "/usr/share/keyrings/*",
)  # fmt: skip
MADE = ("etc/passwd", "etc/group", "etc/apt/apt.conf.d/99-no-languages", "var/lib/dpkg/status", "usr/local/bin")
_APT = "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"  # apt makes this user when it is installed


@functools.cache
def missing() -> str | None:
    """Why this machine can't be copied; None if it can."""
    if shutil.which("dpkg-query") is None or not Path("/usr/share/base-passwd/passwd.master").exists():
        return "needs Debian or Ubuntu"
    version = "import sys; print(*sys.version_info[:2])"
    try:
        found = subprocess.check_output(["/usr/bin/python3", "-c", version], text=True)
    except (OSError, subprocess.CalledProcessError):
        return "needs the system's own Python"
    ours = sys.version_info[:2]
    return None if found.split() == [str(number) for number in ours] else f"the system's Python is not {ours}"


def packages(wanted: Sequence[str]) -> list[str]:
    """What is asked for and what is essential, with all that they need, as far as it is installed here.

    Raises:
        LookupError: a package that is asked for is not installed.
    """
    needs, names = _needs()
    absent = [name for name in wanted if name not in needs]
    if absent:
        raise LookupError(f"not installed: {', '.join(absent)}")
    found: set[str] = set()
    ahead = [*wanted, *(name for name, (essential, _) in needs.items() if essential)]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += [names[need] for need in needs[name][1] if need in names]
    return sorted(found)


def _needs() -> tuple[dict[str, tuple[bool, list[str]]], dict[str, str]]:
    """Of each installed package, whether it is essential and what it needs; and which package stands for a name."""
    fields = "${Package}\t${db:Status-Abbrev}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    printed = subprocess.check_output(["dpkg-query", "--show", f"--showformat={fields}"], text=True)
    rows = [line.split("\t") for line in printed.splitlines()]
    rows = [row for row in rows if row[1].startswith("ii")]
    names = {_name(other): row[0] for row in rows for other in row[4].split(",") if other.strip()}
    names |= {row[0]: row[0] for row in rows}
    alternatives = {row[0]: [[_name(each) for each in need.split("|")] for need in row[3].split(",")] for row in rows}
    chosen = {
        name: [next((each for each in need if each in names), "") for need in needs]
        for name, needs in alternatives.items()
    }
    return {row[0]: (row[2] == "yes", chosen[row[0]]) for row in rows}, names


def _name(text: str) -> str:
    """ "libc6" for " libc6:any (>= 2.36)"."""
    return text.split("(")[0].strip().split(":")[0]


def lay_out(folder: Path, chosen: Sequence[str]) -> Path:
    """Write what has to be made anew, MADE, into `folder`, a new root.

    Returns:
        A file with the names of all others, for tar, without the first slash.
    """
    for name in ("passwd", "group"):
        (folder / "etc").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"/usr/share/base-passwd/{name}.master", folder / "etc" / name)
    with open(folder / "etc" / "passwd", "a") as passwd:
        passwd.write(_APT)
    (folder / "etc/apt/apt.conf.d").mkdir(parents=True)
    (folder / "etc/apt/apt.conf.d/99-no-languages").write_text('Acquire::Languages "none";\n')  # 6 MB less each time
    for made in ("var/lib/dpkg", "usr/local/bin"):
        (folder / made).mkdir(parents=True)
    (folder / "var/lib/dpkg/status").write_bytes(subprocess.check_output(["dpkg-query", "--status", *chosen]))
    listed = folder.with_name(f"{folder.name}.files")
    listed.write_text("".join(f"{path.lstrip('/')}\n" for path in sorted(set(_files(chosen))) if path != "/"))
    return listed


def _files(chosen: Sequence[str]) -> Iterator[str]:
    printed = subprocess.check_output(["dpkg-query", "--listfiles", *chosen], text=True)
    patterns = [f"/var/lib/dpkg/info/{name}{end}" for name in chosen for end in (".*", ":*.*")]
    made = [path for pattern in (*_SINCE_INSTALLED, *patterns) for path in glob.glob(pattern)]
    for path in (*printed.splitlines(), *made):
        if path.startswith("/") and os.path.lexists(path) and not _DOCUMENTS.match(path):
            folder, name = os.path.split(path)
            yield os.path.join(os.path.realpath(folder), name)  # /bin/sh is /usr/bin/sh, and /bin a link
