"""The guide for instructors (solutions/README.md): its commands exist and do what it says, all of them in a row."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from nbgrader.apps import NbGraderApp

from distlib.checks.task import _PRINTED_SHOWN, CHECK_SECONDS
from distlib.classroom.demo import STUDENTS
from distlib.classroom.grader.examine import MEMORY
from distlib.classroom.grader.submission import MOST_BYTES_OF_CELLS, MOST_CELLS
from distlib.cli import main
from distlib.games.game_list import all_games
from distlib.judge.remote.judge import MOST_SHOWN
from distlib.judge.remote.student_cells import _MOST_BYTES_OF_A_CELL
from distlib.judge.remote.wire import MOST_PAYLOAD
from distlib.judge.sandbox import KINDS, Limits
from distlib.judge.sandbox.limits import statement_seconds
from tests.tools.game_class import handed_in
from tests.tools.nbgrader_process import nbgrader
from tests.tools.tiny_course import DOCUMENTS, NAME, RIGHT, ROOT, TEXT, TinyCourse

GUIDE = (ROOT / "solutions" / "README.md").read_text(encoding="utf-8")
ASSIGNMENT = "02_all_reduce"
PROGRAMS = ("make", "nbgrader", "distlib", "git", "mkdir", "cp", "python", "source")
BLOCK_LINES = [line[4:] for line in GUIDE.splitlines() if line.startswith("    ")]
IN_BLOCKS = [line for line in BLOCK_LINES if line.split() and line.split()[0] in PROGRAMS]
INLINE = [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", GUIDE.replace("\n    ", "\n"))]
COMMANDS = sorted({*IN_BLOCKS, *(text for text in INLINE if text.split()[0] in PROGRAMS)})
SETTINGS = [line for line in BLOCK_LINES if re.match(r"c\.(?!JupyterHub|\w*Spawner)", line)]  # nbgrader's


def words_of(program: str) -> list[list[str]]:
    """The guide's commands of a program, without its name."""
    return [shlex.split(command)[1:] for command in COMMANDS if command.split()[0] == program]


# What it names exists


@pytest.mark.parametrize("words", words_of("nbgrader"), ids=" ".join)
def test_commands_and_options_of_nbgrader_exist(words: list[str]) -> None:
    app, rest = command_of_nbgrader(words)
    assert rest != words, "no such command"
    names = [word[2:].split("=")[0] for word in rest if word.startswith("--")]
    assert [name for name in names if not has_option(app, name)] == []


def command_of_nbgrader(words: list[str]) -> tuple[Any, list[str]]:
    """The application behind some words, and the words that are left."""
    app, rest = NbGraderApp(), list(words)
    while rest and rest[0] in app.subcommands:
        app = app.subcommands[rest.pop(0)][0]()
    return app, rest


def has_option(app: Any, name: str) -> bool:
    """Whether a traitlets application has an option --name or --Class.name."""
    if "." in name:
        kind, trait = name.split(".")
        return any(found.__name__ == kind and trait in found.class_traits(config=True) for found in app.classes)
    return name in app.aliases or name in app.flags


def test_an_option_that_does_not_exist_is_noticed() -> None:
    assert command_of_nbgrader(["collect_zip"])[1] == ["collect_zip"]
    app, _ = command_of_nbgrader(["generate_assignment"])
    assert has_option(app, "force") and not has_option(app, "farce")
    assert has_option(app, "CourseDirectory.course_id") and not has_option(app, "CourseDirectory.x")


@pytest.mark.parametrize("words", words_of("distlib"), ids=" ".join)
def test_commands_and_options_of_distlib_exist(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words[: 2 if words[0] == "class" else 1], "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert [word for word in words if word.startswith("--") and word not in text] == []


def test_every_kind_of_sandbox_has_a_column() -> None:
    (heads,) = re.findall(r"^\| \| (bubblewrap.*) \|$", GUIDE, re.MULTILINE)
    assert {head.split(",")[0] for head in heads.split(" | ")} == set(KINDS)


def test_the_numbers() -> None:
    limits, text = Limits(), " ".join(GUIDE.split())
    assert f"{limits.memory_bytes >> 30} GiB of memory per rank" in text
    assert f"{limits.together_bytes >> 30} GiB for all ranks of a submission together" in text
    assert f"{limits.threads} threads, {limits.file_bytes >> 20} MiB of files" in text
    assert f"may take {MEMORY >> 30} GiB itself, and a message {MOST_PAYLOAD >> 20} MiB" in text
    assert f"at most {MOST_CELLS:,} cells and {MOST_BYTES_OF_CELLS >> 20} MiB without its outputs" in text
    assert f"more than {_MOST_BYTES_OF_A_CELL >> 10} KiB" in text
    assert f"The first {limits.output_bytes:,} printed characters per run or per cell are kept" in text
    assert f"the first {MOST_SHOWN:,} characters are shown" in text and MOST_SHOWN == _PRINTED_SHOWN
    assert f"{limits.check_seconds:g} s per check, {limits.submission_seconds:g} s for all checks" in text
    assert f"{limits.cells_seconds:g} s to run the student's cells once, and {limits.reruns_seconds:g} s for" in text
    assert f"may take {statement_seconds(limits.cells_seconds):g} s, later ones half of what is left" in text
    assert f"of {limits.cells_seconds:g} s, and each at least {statement_seconds(0):g} s" in text
    assert (
        f"a check have {CHECK_SECONDS:g} s together, all checks of a submission {limits.submission_seconds:g} s" in text
    )
    assert len(STUDENTS) == 3 and "a made-up class of three" in text


def test_its_links_within_the_page() -> None:
    heads = {re.sub(r"[^a-z -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)$", GUIDE, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", GUIDE)) <= heads


# What it says is so: all its commands, in their order, in a course with a small exercise

MOODLE, CANVAS = "Grace Hopper_1207_assignsubmission_file", "turingalan_LATE_1204_77_work.zip"
ROSTER = """id,first_name,last_name,email,lms_user_id
ada,Ada,Lovelace,,
grace-hopper,Grace,Hopper,,
turingalan,Alan,Turing,,1204
zoe,Zoe,Young,,
s1001,Ana,Sousa,,
s1025,Wei,Zhang,,
"""
TIMES = "id,time\ngrace-hopper,2025-11-02 10:00\nturingalan,2025-11-02 11:00\n"


@pytest.fixture(scope="module")
def course(tiny_course: TinyCourse, tmp_path_factory: pytest.TempPathFactory) -> TinyCourse:
    """A small course as a git repository, and what students have sent."""
    made = tiny_course.copy_to(tmp_path_factory.mktemp("course") / "tiny")
    shutil.rmtree(made.root / "classroom")
    (made.root / "solutions" / NAME / f"{NAME}.py").write_text(TEXT)
    for name in DOCUMENTS:
        shutil.copy(ROOT / name, made.root)
    shutil.copytree(ROOT / "docker", made.root / "docker")
    for folder in ("course", "distlib", "tests"):
        (made.root / folder).mkdir()
        (made.root / folder / "something.txt").touch()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "The course"]):
        subprocess.run([*git, *words], cwd=made.root, check=True, timeout=100)
    return made


@pytest.fixture(scope="module")
def walked(course: TinyCourse) -> TinyCourse:
    """The course after all commands of the guide."""
    uploads, exchange = course.root / "uploads", course.root.parent / "exchange"
    uploads.mkdir()
    exchange.mkdir()
    exchange.chmod(0o777)
    for line in SETTINGS[:2]:
        configure(course, line.replace("/srv/nbgrader/exchange", str(exchange)))
    notebook = course.hand_in("nobody", RIGHT) / f"{NAME}.ipynb"
    shutil.copy(notebook, uploads / "ada.ipynb")
    shutil.rmtree(course.root / "classroom" / "submitted")
    (course.root / "classroom" / "students.csv").write_text(ROSTER)
    for command in IN_BLOCKS:
        if command.split()[0] not in ("make", "source") or command == "make exercises":
            prepare(course, command, uploads)
            run(course, command)
    return course


def prepare(course: TinyCourse, command: str, uploads: Path) -> None:
    """What others have done before a command of the guide."""
    if command.startswith("distlib class same"):  # taken under a wrong name before there was a roster
        course.hand_in(command.split()[3], {})
    if "Grades.csv" in command:
        (course.root / "Grades.csv").write_text(TIMES)
    if "moodle.zip" in command:
        work = course.root.parent / "work.zip"
        write_zip(work, {"my work.ipynb": uploads / "ada.ipynb"})
        write_zip(course.root / "moodle.zip", {f"{MOODLE}/{NAME}.ipynb": notebook_of(course), CANVAS: work})
    elif command.startswith("nbgrader collect"):
        run(course, f"nbgrader submit exercises/{NAME} --student=zoe")
    elif command.startswith("distlib collect games"):
        (uploads / "ada.ipynb").write_text(
            handed_in([("layout", 1, all_games()["layout"].record(1))], "Night Owl"), encoding="utf-8"
        )


def run(course: TinyCourse, command: str) -> str:
    """Run a command as the guide means it, with the small exercise. Returns what it prints."""
    command = command.replace("release_feedback", "release_feedback --student=zoe")  # only she has used the exchange
    command = command.replace(ASSIGNMENT, NAME).replace("make exercises", "python -m distlib.authoring exercises")
    if command.startswith("nbgrader "):
        return nbgrader(course.root, *shlex.split(command)[1:])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=course.root,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def configure(course: TinyCourse, line: str) -> None:
    with (course.root / "nbgrader_config.py").open("a") as config:
        config.write(f"{line}\n")


def write_zip(path: Path, members: dict[str, Path]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for hour, (name, source) in enumerate(members.items(), 8):
            member = zipfile.ZipInfo(name, (2025, 11, 1, hour, 0, 0))
            archive.writestr(member, source.read_bytes())


def notebook_of(course: TinyCourse) -> Path:
    return course.root / "exercises" / NAME / f"{NAME}.ipynb"


def table(path: Path) -> dict[str, dict[str, str]]:
    """A table of marks by student."""
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    return {row.get("student") or row["student_id"]: row for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_release_to_regrading(walked: TinyCourse) -> None:
    classroom = walked.root / "classroom"
    released = zipfile.ZipFile(classroom / "course.zip").namelist()
    assert f"course/exercises/{NAME}/{NAME}.ipynb" in released and "course/Makefile" in released
    assert [name for name in released if name.startswith(("course/solutions", "course/tests"))] == []

    folders = ["ada", "grace-hopper", "s1025", "turingalan", "zoe"]
    assert sorted(path.name for path in (classroom / "submitted").iterdir()) == folders
    for student in ("grace-hopper", "turingalan", "zoe"):
        assert (classroom / "submitted" / student / NAME / "timestamp.txt").exists()

    marks = table(classroom / "graded" / NAME / "marks.csv")
    assert {student: marks[student]["score"] for student in folders} == {
        "ada": "6", "grace-hopper": "0", "s1025": "0", "turingalan": "6", "zoe": "0",
    }  # fmt: skip
    for student in folders:
        assert (classroom / "feedback" / student / NAME / f"{NAME}.html").exists()
    assert len(list((walked.root.parent / "exchange" / "dt101" / "feedback").iterdir())) == 1
    assert "Night Owl" in (classroom / "board" / "board.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_penalties(walked: TinyCourse) -> None:
    for student, day in {"ada": 5, "turingalan": 4}.items():  # ada has three days more
        (walked.root / "classroom" / "submitted" / student / NAME / "timestamp.txt").write_text(
            f"2025-11-0{day} 10:00 UTC"
        )
    run(walked, "distlib class late --per-day 10% --grace 10min")
    run(walked, f'distlib class due {ASSIGNMENT} "2025-11-02 23:59 Europe/Berlin"')
    run(walked, f"distlib grade {ASSIGNMENT}")
    run(walked, "nbgrader export")
    ours, theirs = (table(walked.root / "classroom" / name) for name in (f"graded/{NAME}/marks.csv", "grades.csv"))
    assert (ours["ada"]["score"], ours["turingalan"]["score"]) == ("6", "4.8")
    assert float(theirs["turingalan"]["score"]) == pytest.approx(4.8)
