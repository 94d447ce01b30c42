"""`distlib release`: the course for students is complete by itself, and holds nothing that is not for them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from distlib.classroom.grader.course import open_course
from distlib.classroom.uploads.published import CELL, published, repository_of
from distlib.classroom.uploads.release import ReleaseError, for_students, release_files
from distlib.cli import main
from tests.tools.tiny_course import DOCUMENTS, NAME, ROOT, TinyCourse


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """What students get of this course."""
    return release_files(open_course(ROOT))


@pytest.fixture(scope="module")
def made(tiny_course: TinyCourse, tmp_path_factory: pytest.TempPathFactory) -> TinyCourse:
    """A small course that can be released."""
    made = tiny_course.copy_to(tmp_path_factory.mktemp("release") / "tiny")
    for name in DOCUMENTS:
        shutil.copy(ROOT / name, made.root)
    shutil.copytree(ROOT / "docker", made.root / "docker")
    for name, text in {"course/01_tiny.ipynb": "{}", "course/01_tiny.py": "", "distlib/__init__.py": ""}.items():
        (made.root / name).parent.mkdir(exist_ok=True)
        (made.root / name).write_text(text)
    return made


@pytest.fixture
def tiny(made: TinyCourse, tmp_path: Path) -> TinyCourse:
    return made.copy_to(tmp_path / "course")


# ── what is in it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_has_what_students_need_and_no_more(files: dict[str, bytes]) -> None:
    assert {name for name in files if "/" not in name} == {
        *(*DOCUMENTS, "AGENTS.md", "distlib_backend.py", "due_dates.json", "graded_with.txt")
    }
    assert {name.split("/")[0] for name in files if "/" in name} == {
        *("course", "distlib", "docker", "exercises", ".binder", ".devcontainer")
    }
    modules = {
        path.relative_to(ROOT).as_posix() for name in ("distlib", "docker") for path in (ROOT / name).rglob("*.py")
    }
    modules.add("distlib_backend.py")
    assert {name for name in files if name.endswith(".py")} == modules, "no text sources, and the whole package"
    notebooks = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("course/*.ipynb")}
    notebooks |= {f"exercises/{path.stem}/{path.stem}.ipynb" for path in ROOT.glob("solutions/*/*.py")}
    assert {name for name in files if name.endswith(".ipynb")} == notebooks
    assert not [name for name in files if "__pycache__" in name or ".ipynb_checkpoints" in name]
    data = {path.relative_to(ROOT).as_posix() for path in (ROOT / "distlib").rglob("*.json")}
    assert data and data <= files.keys()


def test_every_link_leads_somewhere(files: dict[str, bytes]) -> None:
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    links = [(name, link) for name, content in files.items() for link in links_of(name, content)]
    assert len(links) > 30
    assert [pair for pair in links if resolved(*pair) not in files.keys() | folders] == []


def links_of(name: str, content: bytes) -> list[str]:
    """The relative links of a document."""
    if name.endswith(".ipynb"):
        cells = [cell for cell in json.loads(content)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    else:
        text = content.decode() if name.endswith(".md") else ""
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r"(?:src|href)=\"([^\"#]+)", text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def resolved(name: str, link: str) -> str:
    """The path that a link of a document leads to."""
    parts: list[str] = []
    for part in (*PurePosixPath(name).parent.parts, *PurePosixPath(link).parts):
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def test_the_readme_speaks_of_nothing_that_is_not_there(files: dict[str, bytes]) -> None:
    readme, makefile = files["README.md"].decode(), files["Makefile"].decode()
    assert "Student" in readme and "Instructor" not in readme and "not for students" not in readme + makefile
    for word in ("solutions", "tests/", "CONTRIBUTING", "nbgrader"):
        assert word not in readme and word not in makefile
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    assert {"lab"} <= set(re.findall(r"make ([a-z-]+)", readme)) <= targets
    assert not targets & {
        "test",
        "check",
        "exercises",
        "notebooks",
        "answers",
        "bench",
        "grade-demo",
        "site",
        "repository",
    }
    assert ",dev" not in makefile and '-e ".[lessons,grading]"' in makefile, "students need none of the tools for tests"


def test_no_solution_and_no_hidden_test_is_in_it(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if name.endswith(".ipynb"):
            assert b"### BEGIN" not in content and b"### END" not in content, name


@pytest.mark.slow
def test_it_runs_where_it_is_unpacked(
    files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["release", str(tmp_path / "dt101.zip"), "--course", str(ROOT)]) == 0
    assert f"{len(files)} files, without solutions/ and tests/" in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "dt101.zip") as archive:
        assert archive.namelist() == [f"dt101/{name}" for name in files]
        archive.extractall(tmp_path)
    program = (
        "import distlib, pathlib; from distlib.cli.lab import find_course;"
        "from distlib.classroom import hand_in; from distlib.classroom.self_check.exercise import find_exercise;"
        "print(find_course(pathlib.Path.cwd()), distlib.__file__, *find_exercise('02_all_reduce').tests)"
    )
    folder = tmp_path / "dt101"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.split()[:3] == [str(folder), str(folder / "distlib" / "__init__.py"), "naive_all_reduce"]


# ── at an address ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_at_an_address_each_notebook_brings_the_course_to_colab(files: dict[str, bytes]) -> None:
    made = published(files, "https://github.com/some-one/course.git")
    assert made.keys() == {CELL, "ANYWHERE.md", "README.md", "pyproject.toml"} | {
        f"colab/{'lessons' if name.startswith('course/') else 'exercises'}/{PurePosixPath(name).name}"
        for name in files
        if name.endswith(".ipynb") and name != CELL
    }
    source = "".join(json.loads(made["colab/lessons/02_all_reduce.ipynb"])["cells"][1]["source"])
    assert 'COURSE = "https://github.com/some-one/course.git"\n' in source
    compile(source, "cell", "exec")
    start = "https://colab.research.google.com/github/some-one/course/blob/main/"
    for name, content in made.items():
        found = re.findall(rf"{re.escape(start)}([^)\\s\"#]+ipynb)", content.decode())
        assert set(found) <= made.keys(), name
    assert f"{start}colab/exercises/02_all_reduce.ipynb" in made["colab/lessons/02_all_reduce.ipynb"].decode()
    assert f"{start}colab/lessons/02_all_reduce.ipynb" in made["colab/exercises/02_all_reduce.ipynb"].decode()
    pictures = re.findall(
        r"\]\((?!https)[^)]*svg\)", "".join(text.decode() for name, text in made.items() if "colab" in name)
    )
    assert (
        pictures == [] and b"some-one/course/main/course/images/hang.svg" in made["colab/lessons/00_start_here.ipynb"]
    )
    assert f"{start}course/anywhere.ipynb" in made["ANYWHERE.md"].decode()
    assert "https://some-one.github.io/course/" in made["README.md"].decode()
    assert repository_of(made["pyproject.toml"].decode()) == "some-one/course"


def test_at_another_address_links_stay(files: dict[str, bytes]) -> None:
    made = published(files, "git@example.org:course.git")
    assert b"colab.research" not in made["colab/lessons/02_all_reduce.ipynb"]
    assert b"git clone git@example.org:course.git course" in made["ANYWHERE.md"]


def test_the_command_takes_an_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["release", str(tmp_path / "out"), "--course", str(ROOT), "--address"]
    assert main([*command, 'say "hello"']) == 1
    assert "expected an address such as https://" in capsys.readouterr().err
    assert main([*command, "https://example.org/course"]) == 0
    assert (tmp_path / "out" / "colab" / "lessons" / "00_start_here.ipynb").exists()


# ── what stops it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_and_a_zip_file(tiny: TinyCourse, tmp_path: Path) -> None:
    folder, packed = tmp_path / "for students", tmp_path / "a" / "course.zip"
    words = ["--course", str(tiny.root)]
    assert main(["release", str(folder), *words]) == main(["release", str(packed), *words]) == 0
    first = packed.read_bytes()
    assert main(["release", str(packed), *words]) == 0
    assert packed.read_bytes() == first and [path.name for path in packed.parent.iterdir()] == ["course.zip"]
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    with zipfile.ZipFile(packed) as archive:
        assert {f"course/{name}" for name in found} == set(archive.namelist())
    assert {name for name in found if "/" in name and not name.startswith("docker/")} == {
        "course/01_tiny.ipynb",
        "distlib/__init__.py",
        f"exercises/{NAME}/{NAME}.ipynb",
        f"exercises/{NAME}/data.csv",
    }
    assert {"docker/Dockerfile", "docker/compose.yaml"} <= found
    assert "not for students" not in (folder / "docker" / "README.md").read_text()
    assert main(["release", str(folder), *words]) == 1, "it is not empty now"


def answer(path: Path) -> None:
    path.write_text(path.read_text().replace("raise NotImplementedError()", "return 7", 1))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (f"exercises/{NAME}/{NAME}.ipynb", None, "it holds answers, or is not up to date"),
        (f"exercises/{NAME}/{NAME}.ipynb", "{", "ends in the middle"),
        (f"exercises/{NAME}/extra.ipynb", '{"cells": [{"source": "x"}]}', "is not what solutions/01_tiny gives"),
        (f"exercises/{NAME}/{NAME}.py", "", "could hold solutions"),
        ("exercises/09_x/09_x.ipynb", "{}", "there is no solutions/09_x/09_x.ipynb"),
        ("course/01_tiny.ipynb", '{"cells": [{"outputs": [{"output_type": "stream"}]}]}', "holds outputs"),
        ("README.md", "a\n<!-- >>> not for students -->\nb", "no line with '<<< not for students' ends it"),
    ],
)
def test_what_is_not_released(tiny: TinyCourse, tmp_path: Path, name: str, text: str | None, words: str) -> None:
    path = tiny.root / name
    path.parent.mkdir(exist_ok=True)
    answer(path) if text is None else path.write_text(text)
    with pytest.raises(Exception, match=words):
        release_files(open_course(tiny.root))
    assert main(["release", str(tmp_path / "x.zip"), "--course", str(tiny.root)]) == 1
    assert not (tmp_path / "x.zip").exists()


def test_parts_that_are_not_for_students() -> None:
    text = "a\n# >>> not for students: why\nb\n# <<< not for students\nc\n"
    assert for_students(text) == "a\nc\n"
    with pytest.raises(ReleaseError):
        for_students(text.replace("<<<", ""))
