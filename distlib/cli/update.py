"""`distlib update`: a newer version of the course, by git; the student's work stays, and never conflicts with it."""

import shutil
import subprocess
from pathlib import Path

from distlib.classroom.student_copies.bring import back_up
from distlib.cli.copies import bring_copies
from distlib.cli.course_folder import NO_COURSE, find_course

PACKAGES = ("pyproject.toml", "constraints.txt")  # what the environment is made from


def update() -> int:
    """Gets the course's newest version and brings it to the student's copies.

    Returns 0; 1 without a course, or when git can't get it. The copies then get what is there.
    """
    course = find_course(Path.cwd())
    if course is None:
        print(NO_COURSE)
        return 1
    if not bring_copies(course):  # also of what was written into the course itself
        return 1
    if not (course / ".git").exists():
        print(f"This course did not come by git. To update it, unpack the newer zip file over {course}, and start it")
        print("again: distlib lab. Your work is in the folder work/, which is in no zip file.")
        return 0
    packages = _packages(course)
    done = pull(course)
    if done:
        print(f"git could not get a newer version:\n{done}")
    if not bring_copies(course) or done:
        return 1
    print("You have the newest version of the course.")
    if _packages(course) != packages:
        print("It needs other packages. Stop JupyterLab, and start it with: make lab")
    return 0


def pull(course: Path) -> str:
    """Gets the newest version. Returns what git says if it can't, else nothing.

    Notebooks of the course that somebody has written in are backed up and put back first: they would be in the way.
    """
    changed = git(course, "diff", "--name-only", "-z", "HEAD", "--", "course/*.ipynb", "exercises/*.ipynb").stdout
    for name in filter(None, changed.split("\0")):
        if (course / name).exists():
            backup = back_up(course, course / name)
            print(f"{name} was changed. It is kept as {backup.relative_to(course)}; the course's version is back.")
        git(course, "checkout", "--quiet", "HEAD", "--", name)
    done = git(course, "pull", "--ff-only", "--quiet")
    return (done.stderr or done.stdout).strip() or f"git pull ended with {done.returncode}" if done.returncode else ""


def git(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs git in the course's folder. It never asks for a password."""
    program = shutil.which("git") or "git"
    command = [program, "-C", str(course), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _packages(course: Path) -> list[bytes]:
    return [path.read_bytes() for path in map(course.joinpath, PACKAGES) if path.exists()]
