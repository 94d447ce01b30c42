"""`distlib collect`: from what students upload, in folders and zip files, to the folder that is graded."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from distlib.classroom.grader.course import open_course
from distlib.classroom.grader.file_kind import EMPTY, kind_of
from distlib.classroom.grader.refused import Refused, read_refused
from distlib.classroom.uploads import files
from distlib.classroom.uploads.collect import COLLECTED, LEFT_OUT, PROBLEM, UNCHANGED, UploadOutcome, collect
from distlib.classroom.uploads.files import Upload, find_uploads
from distlib.classroom.uploads.owners import CANVAS, Owner, owners
from distlib.cli import main
from tests.tools.tiny_course import NAME, RIGHT, ROOT, TinyCourse

LESSON = {
    "cells": [{"cell_type": "markdown", "metadata": {}, "source": "# Tiny: the lesson, in which all is explained"}]
}
OTHER = "02_all_reduce"
PDF = b"%PDF-1.7 \x80"


@pytest.fixture(scope="module")
def made(tiny_course: TinyCourse, tmp_path_factory: pytest.TempPathFactory) -> TinyCourse:
    """A course with a lesson and a second exercise."""
    made = tiny_course.copy_to(tmp_path_factory.mktemp("collect") / "tiny")
    (made.root / "course").mkdir()
    (made.root / "course" / f"{NAME}.ipynb").write_text(json.dumps(LESSON))
    (made.root / "exercises" / OTHER).mkdir()
    (made.root / "exercises" / OTHER / f"{OTHER}.ipynb").write_bytes(other_exercise())
    return made


@pytest.fixture
def tiny(made: TinyCourse, tmp_path: Path) -> TinyCourse:
    return made.copy_to(tmp_path / "course")


def other_exercise() -> bytes:
    return (ROOT / "exercises" / OTHER / f"{OTHER}.ipynb").read_bytes()


def work(tiny: TinyCourse, text: str = "") -> bytes:
    """The exercise, answered. text: makes it a different one."""
    notebook = tiny.released()
    for cell in notebook["cells"]:
        cell["source"] = RIGHT.get(cell["id"], cell["source"]) if cell["id"] != "negate" else RIGHT["negate"] + text
    return json.dumps(notebook).encode()


def zipped(members: Mapping[str, bytes], hour: int = 12) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2025, 11, 2, hour, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def put(folder: Path, members: Mapping[str, bytes]) -> Path:
    for name, content in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def put_zip(tiny: TinyCourse, members: Mapping[str, bytes], name: str = "all.zip", hour: int = 12) -> Path:
    (tiny.root / name).write_bytes(zipped(members, hour))
    return tiny.root / name


def run(tiny: TinyCourse, *sources: Path, zone: str = "") -> dict[str, UploadOutcome]:
    """What became of each file, by its name."""
    course = open_course(tiny.root)
    outcomes = collect(course, NAME, sources, time_zone=ZoneInfo(zone) if zone else None).outcomes
    assert not list((tiny.root / "classroom").glob(".collecting*")), "nothing temporary stays"
    return {outcome.file: outcome for outcome in outcomes}


def states(outcomes: Mapping[str, UploadOutcome]) -> dict[str, tuple[str, str]]:
    return {file: (outcome.student, outcome.state) for file, outcome in outcomes.items()}


def submitted(tiny: TinyCourse) -> list[str]:
    return sorted(path.parents[1].name for path in tiny.root.glob(f"classroom/submitted/*/{NAME}/{NAME}.ipynb"))


def test_what_a_collecting_that_was_killed_has_left_goes(tiny: TinyCourse) -> None:
    put(tiny.root / "classroom" / ".collecting" / "0", {"1.ipynb": b"of another class"})
    place = put_zip(tiny, {f"ada/{NAME}.ipynb": work(tiny)})
    assert states(run(tiny, place)) == {f"ada/{NAME}.ipynb": ("ada", "collected")}


# ── where uploads come from ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_zip_file_of_moodle(tiny: TinyCourse) -> None:
    folder = "{}_{}_assignsubmission_file"
    ada, bob, cy = folder.format("Ada Lovelace", 1204), folder.format("Bob Ωmega", 1205), folder.format("Cy", 1206)
    found = run(
        tiny,
        put_zip(
            tiny,
            {
                f"{ada}/{NAME}.ipynb": work(tiny),
                f"{ada}/notes.pdf": b"%PDF",
                f"{bob}/my work.ipynb": work(tiny, "\n"),
                f"{cy}/essay.docx": b"PK",
                f"{folder.format('Di', 1207)}_/handed.zip": zipped({f"deep/{NAME}.ipynb": work(tiny)}),
                f"Ed_1208_assignsubmission_file_{NAME}.ipynb": work(tiny),
                f"__MACOSX/{ada}/._{NAME}.ipynb": b"",
            },
        ),
    )
    assert {student: state for student, state in states(found).values() if student != "ada-lovelace"} == {
        "bob-ωmega": COLLECTED,
        "cy": PROBLEM,
        "di": COLLECTED,
        "ed": COLLECTED,
    }
    assert found[f"{ada}/{NAME}.ipynb"].state == COLLECTED and found[f"{ada}/notes.pdf"].state == LEFT_OUT
    assert found[f"{cy}/essay.docx"].why == "it is a text file, not a notebook"
    assert submitted(tiny) == ["ada-lovelace", "bob-ωmega", "di", "ed"]
    assert tiny.folder("ada-lovelace").joinpath(f"{NAME}.ipynb").read_bytes() == work(tiny)
    assert not tiny.folder("ada-lovelace").joinpath("timestamp.txt").exists()


def test_the_zip_file_of_canvas(tiny: TinyCourse) -> None:
    found = run(
        tiny,
        put_zip(
            tiny,
            {
                f"lovelaceada_LATE_1204_77_{NAME}.ipynb": work(tiny),
                f"hoppergrace_1205_81_{NAME}-1.ipynb": work(tiny, "\n# the second"),
                f"hoppergrace_1205_79_{NAME}.ipynb": work(tiny, "\n# the first"),
                "bobb_5_6_broken.zip": b"no zip file",
            },
        ),
    )
    assert sorted(states(found).values()) == [
        ("bobb", PROBLEM),
        ("hoppergrace", COLLECTED),
        ("hoppergrace", LEFT_OUT),
        ("lovelaceada", COLLECTED),
    ]
    assert b"# the second" in tiny.folder("hoppergrace").joinpath(f"{NAME}.ipynb").read_bytes()
    assert "can't be unpacked" in found["bobb_5_6_broken"].why


def test_a_folder_of_files_and_of_folders(tiny: TinyCourse) -> None:
    folder = put(
        tiny.root / "uploads",
        {
            f"{NAME}--ada-lovelace.ipynb": work(tiny),
            f"{NAME}--bob (2).ipynb": work(tiny, "\n# 2"),
            f"{NAME}--bob.ipynb": work(tiny),
            f"{NAME}--bob.receipts.txt": b"time",
            "cy.ipynb.txt": work(tiny),
            f"di/{NAME}.ipynb": work(tiny),
            f"ed/{NAME}/anything.ipynb": work(tiny),
            f"ed/{NAME}/.ipynb_checkpoints/anything-checkpoint.ipynb": b"",
            f"{NAME}.ipynb": work(tiny),
            "flo.zip": zipped({f"{NAME}.ipynb": work(tiny)}),
        },
    )
    for number, path in enumerate(sorted(folder.rglob("*.ipynb"))):
        os.utime(path, (1_900_000_000 + number, 1_900_000_000 + number))
    os.utime(folder / f"{NAME}--bob (2).ipynb", (1_900_000_100, 1_900_000_100))
    found = run(tiny, folder)
    assert submitted(tiny) == ["ada-lovelace", "bob", "cy", "di", "ed", "flo"]
    assert found[f"{NAME}.ipynb"].state == PROBLEM and "whose it is" in found[f"{NAME}.ipynb"].why
    assert b"# 2" in tiny.folder("bob").joinpath(f"{NAME}.ipynb").read_bytes()
    assert found[f"{NAME}--bob.ipynb"].why == f"a later one of this student was taken: {NAME}--bob (2).ipynb"
    assert set(states(run(tiny, folder)).values()) >= {("ada-lovelace", UNCHANGED), ("bob", UNCHANGED)}


def upload(*parts: str) -> Upload:
    return Upload(parts, None, None)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([["handed in", "ada", "x.ipynb"], ["handed in", "bob", "x.ipynb"]], ["ada", "bob"]),
        ([["ada", f"{NAME}.ipynb"]], ["ada"]),
        ([["ada", NAME, f"{NAME}.ipynb"]], ["ada"]),
        ([["all", f"{NAME}--ada.ipynb"]], ["ada"]),
        ([["all", "Ada B_12_assignsubmission_file_", "x.ipynb"]], ["Ada B"]),
        ([["Ada B_12_assignsubmission_file_", "x.ipynb"]], ["Ada B"]),
        ([[f"{NAME}.ipynb"]], [None]),
        ([[f"{NAME} (1).ipynb"]], [None]),
        # a name that a student has chosen does not count where the folder has the student's
        ([["ada", f"{NAME}--bob.ipynb"], ["cy", "bob_1_2_x.ipynb"]], ["ada", "cy"]),
        ([["Ada_1_assignsubmission_file", f"{NAME}--bob.ipynb"]], ["Ada"]),
        ([[f"ada_1_2_{NAME}--bob.ipynb"], ["b_1_2_x"]], ["ada", "b"]),
    ],
)
def test_whose_it_is(paths: list[list[str]], expected: list[str | None]) -> None:
    assert [owner and owner.name for owner in owners([upload(*path) for path in paths], NAME)] == expected


def test_the_numbers_of_canvas() -> None:
    assert owners([upload("a_LATE_12_34_x.ipynb"), upload("b_5_6_y.ipynb")], NAME) == [
        Owner("a", "12", 34, CANVAS, is_late=True),
        Owner("b", "5", 6, CANVAS),
    ]


def test_one_student_has_one_folder_however_the_upload_came(tiny: TinyCourse) -> None:
    table = "id,first_name,last_name,email\nal1815,Ada,Lovelace,\ngh,Grace,Hopper,\nx1,Al,Le,\nx2,Le,Al,\n"
    (tiny.root / "classroom" / "students.csv").write_text(table)
    folder = put(tiny.root / "uploads", {f"{NAME}--ada-lovelace.ipynb": work(tiny)})
    run(tiny, folder)
    again = put_zip(tiny, {f"lovelaceada_1_2_{NAME}.ipynb": work(tiny)})
    assert list(states(run(tiny, again)).values()) == [("al1815", UNCHANGED)]


# ── what is not collected ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_the_exercise_is_named(tiny: TinyCourse) -> None:
    found = run(
        tiny,
        put(
            tiny.root / "uploads",
            {
                "ada.ipynb": json.dumps(LESSON).encode(),
                "bob.ipynb": other_exercise(),
                "cy.ipynb": b"",
                "di.ipynb": PDF,
                "ed.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}).encode(),
                "flo.ipynb": work(tiny),
            },
        ),
    )
    assert {file: outcome.why for file, outcome in found.items()} == {
        "ada.ipynb": f"it is the lesson {NAME}",
        "bob.ipynb": f"it is exercise {OTHER}",
        "cy.ipynb": f"it is not a notebook: {EMPTY}",
        "di.ipynb": f"it is not a notebook: {kind_of(PDF)}",
        "ed.ipynb": "it is a notebook, but nothing of this course",
        "flo.ipynb": "",
    }
    assert submitted(tiny) == ["flo"]


def test_a_notebook_with_an_unusual_ending_is_collected_and_other_files_are_called_what_they_are(
    tiny: TinyCourse,
) -> None:
    files = {"ada.json": work(tiny), "bob.txt": work(tiny), "cy.pdf": PDF, "di.py": b"import torch\n", "ed.txt": b"Hi"}
    found = run(tiny, put(tiny.root / "up", files))
    assert {file: (outcome.student, outcome.state, outcome.why) for file, outcome in found.items()} == {
        "ada.json": ("ada", COLLECTED, ""),
        "bob.txt": ("bob", COLLECTED, ""),
        "cy.pdf": ("cy-pdf", PROBLEM, "it is a PDF file, not a notebook"),
        "di.py": ("di-py", PROBLEM, "it is a Python script, not a notebook"),
        "ed.txt": ("ed", PROBLEM, "it is a text file, not a notebook"),
    }
    with pytest.raises(ValueError, match="it is not a folder, a zip file or a notebook: it is a PDF file"):
        run(tiny, tiny.root / "up" / "cy.pdf")


def test_a_folder_that_all_exercises_share(tiny: TinyCourse) -> None:
    box = "Cy Young_12_assignsubmission_file"
    up = {
        f"{OTHER}--ada.ipynb": other_exercise(),
        f"{NAME}--ada.ipynb": work(tiny),
        f"bob/{OTHER}.ipynb": other_exercise(),
    }
    found = run(tiny, put(tiny.root / "up", {**up, f"{box}/{OTHER}--cy.ipynb": other_exercise()}))
    assert {file: (outcome.state, outcome.why) for file, outcome in found.items()} == {
        f"{OTHER}--ada.ipynb": (LEFT_OUT, f"it is exercise {OTHER}"),
        f"{NAME}--ada.ipynb": (COLLECTED, ""),
        f"bob/{OTHER}.ipynb": (LEFT_OUT, f"it is exercise {OTHER}"),
        f"{box}/{OTHER}--cy.ipynb": (PROBLEM, f"it is exercise {OTHER}"),  # Cy has chosen the wrong file
    }
    refused = read_refused(open_course(tiny.root), NAME)
    assert [each.student for each in refused] == ["cy-young"], "ada's and bob's are no reason to ask them"


def test_a_time_that_can_t_be_is_said_and_not_noted(
    tiny: TinyCourse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tiny.root / "all.zip", "w") as archive:
        for student, year in (("ada", 1980), ("bob", 2025), ("cy", 2099)):
            archive.writestr(zipfile.ZipInfo(f"{student}_1_2_x.ipynb", (year, 1, 1, 0, 0, 0)), work(tiny))
    monkeypatch.chdir(tiny.root)
    assert main(["collect", NAME, "all.zip", "--times-in", "Europe/Berlin"]) == 0
    printed = capsys.readouterr().out
    assert "no time of handing in: the uploads have none for it; if you know it, write it into classroom/" in printed
    assert "no time of handing in: the one in the uploads, 2099-01-01 00:00, is in the future; if" in printed
    assert "3 files: 3 collected. Of 2 no time of handing in is known." in printed
    assert [student for student in submitted(tiny) if (tiny.folder(student) / "timestamp.txt").exists()] == ["bob"]


def test_a_bad_file_does_not_stand_in_the_way_of_a_good_one(tiny: TinyCourse) -> None:
    good, bad = zipped({"work.ipynb": work(tiny)}), json.dumps(LESSON).encode()
    folder = put(tiny.root / "uploads", {"ada/work.ipynb": work(tiny), "ada/z.ipynb": bad, "bob/x.zip": good})
    found = run(tiny, folder)
    assert states(found) == {
        "ada/work.ipynb": ("ada", COLLECTED),
        "ada/z.ipynb": ("ada", PROBLEM),
        "bob/x/work.ipynb": ("bob", COLLECTED),
    }


def test_what_comes_later_wins_and_nothing_is_lost(tiny: TinyCourse) -> None:
    first = put_zip(tiny, {f"ada_1_2_{NAME}.ipynb": work(tiny, "\n# 1")}, "first.zip")
    second = put_zip(tiny, {f"ada_1_3_{NAME}.ipynb": work(tiny, "\n# 2")}, "second.zip")
    run(tiny, first)
    (tiny.folder("ada") / "timestamp.txt").write_text("2025-11-02 21:50 UTC")
    (outcome,) = run(tiny, second).values()
    kept = tiny.root / outcome.why.removeprefix("the earlier one is kept in ")
    assert b"# 1" in (kept / f"{NAME}.ipynb").read_bytes() and (kept / "timestamp.txt").exists()
    assert sorted(path.name for path in tiny.folder("ada").iterdir()) == [f"{NAME}.ipynb"]
    for _ in range(2):
        (outcome,) = run(tiny, second).values()
        assert outcome.state == UNCHANGED
        (outcome,) = run(tiny, first).values()
        assert (outcome.state, outcome.why) == (LEFT_OUT, "it was collected before, and a later one has replaced it")
    assert b"# 2" in (tiny.folder("ada") / f"{NAME}.ipynb").read_bytes()
    assert len(list(kept.parent.iterdir())) == 1


def test_the_time_of_handing_in(tiny: TinyCourse) -> None:
    def time() -> str:
        return (tiny.folder("ada") / "timestamp.txt").read_text()

    noon = put_zip(tiny, {f"ada_1_2_{NAME}.ipynb": work(tiny, "\n# noon")}, "noon.zip")
    run(tiny, noon)
    (outcome,) = run(tiny, noon, zone="Europe/Berlin").values()
    assert outcome.state == UNCHANGED and time() == "2025-11-02 11:00:00 UTC\n"
    early = put_zip(tiny, {f"ada_1_2_{NAME}.ipynb": work(tiny, "\n# early")}, "early.zip", hour=9)
    (outcome,) = run(tiny, early, zone="Europe/Berlin").values()
    assert outcome.state == LEFT_OUT and "one of 2025-11-02 11:00:00 UTC, which is later, is there" in outcome.why
    late = put_zip(tiny, {f"ada_1_2_{NAME}.ipynb": work(tiny, "\n# late")}, "late.zip", hour=23)
    run(tiny, late, zone="Europe/Berlin")
    assert time() == "2025-11-02 22:00:00 UTC\n"


# ── against harm ─────────────────────────────────────────────────────────────────────────────────────────────────────

ODD = [
    "report.html",
    "marks.csv",
    "a\nb",
    "a\x1b[2J",
    "a*",
    "a?",
    "[a]",
    "~",
    "$(touch x)",
    "con.new",
    "-rf",
    "x" * 200,
]


def test_odd_names_become_harmless_ones(tiny: TinyCourse) -> None:
    members = {f"{name}_{number}_assignsubmission_file/x.ipynb": work(tiny) for number, name in enumerate(ODD)}
    found = run(tiny, put_zip(tiny, members))
    assert {outcome.state for outcome in found.values()} == {COLLECTED}
    assert len(submitted(tiny)) == len(ODD)
    for name in submitted(tiny):
        assert name.isprintable() and not set(name) & set(".*?[]~$() \n") and not name.startswith("-")
    assert open_course(tiny.root).students(NAME) == submitted(tiny)


def test_names_that_are_no_text(tiny: TinyCourse) -> None:
    folder = tiny.root / "uploads"
    folder.mkdir()
    for name in (b"\xff.ipynb", b"\xfe.ipynb"):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_bytes(work(tiny))
    found = run(tiny, folder)
    assert len(submitted(tiny)) == len(found) == 2
    assert all(name.isprintable() for name in submitted(tiny))


def test_no_name_leads_out(tiny: TinyCourse) -> None:
    before = {path for path in tiny.root.parent.rglob("*") if "classroom" not in path.parts}
    link = zipfile.ZipInfo("ada/link.ipynb")
    link.external_attr = 0o120777 << 16
    path = put_zip(
        tiny,
        {
            f"../../evil/{NAME}.ipynb": work(tiny),
            f"/etc/{NAME}.ipynb": work(tiny),
            f"ada\\..\\..\\{NAME}.ipynb": work(tiny),
            "bob/good.ipynb": work(tiny),
        },
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    found = run(tiny, path)
    assert [outcome.state for outcome in found.values()].count(PROBLEM) == 4
    assert submitted(tiny) == ["bob"]
    assert {path for path in tiny.root.parent.rglob("*") if "classroom" not in path.parts} - before == {path}


def test_links_in_a_folder_are_not_followed(tiny: TinyCourse) -> None:
    folder = put(tiny.root / "uploads", {"bob.ipynb": work(tiny)})
    (folder / "ada.ipynb").symlink_to(folder / "bob.ipynb")
    (folder / "cy").symlink_to(tiny.root)
    os.mkfifo(folder / "di.ipynb")
    found = run(tiny, folder)
    assert {file: outcome.state for file, outcome in found.items()} == {
        "ada.ipynb": PROBLEM,
        "bob.ipynb": COLLECTED,
        "di.ipynb": PROBLEM,
    }


def test_absurd_sizes_are_refused(tiny: TinyCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(files, "MOST_BYTES_OF_A_ZIP", 2 << 20)
    monkeypatch.setattr(files, "MOST_MEMBERS", 20)
    bomb = zipped({"a.ipynb": bytes(3 << 20)})
    for _ in range(5):
        bomb = zipped({"again.zip": bomb})
    many = zipped({f"{number}.ipynb": b"" for number in range(21)})
    twice = zipped({f"{number}.zip": zipped({"a.ipynb": bytes(1 << 20)}) for number in range(3)})
    members = {"1/a.ipynb": bytes(2 << 20), "2/a.zip": zipped({"a.ipynb": bytes(3 << 20)}), "3/a.zip": bomb}
    folder = put(tiny.root / "uploads", {**members, "4/a.zip": many, "5/a.zip": twice, "6/good.ipynb": work(tiny)})
    problems = {outcome.why for outcome in run(tiny, folder).values()}
    assert problems >= {
        "",
        "it has more than 1 MiB",
        "it holds more than 2 MiB",
        "it is a zip file in a zip file in a zip file",
        "it holds more than 20 files",
    }
    assert submitted(tiny) == ["6"]


def test_a_zip_file_in_a_zip_file_is_read_once(tiny: TinyCourse, tmp_path: Path) -> None:
    """Its members stand in any order; jumping in a compressed file would read it from the beginning each time."""
    inner = zipped({f"{number}.ipynb": work(tiny, f"\n# {number}") for number in range(5)})
    (tmp_path / "copies").mkdir()
    found = find_uploads(put_zip(tiny, {"ada/a.zip": inner}), tmp_path / "copies")
    assert [upload.parts for upload in found] == [("ada", "a", f"{number}.ipynb") for number in range(5)]
    assert {upload.time for upload in found} == {datetime(2025, 11, 2, 12)}, "the outer file's, which no student writes"


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command(tiny: TinyCourse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tiny.root)
    put(tiny.root / "uploads", {"ada.ipynb": work(tiny), "b\x1b[2J.ipynb": json.dumps(LESSON).encode()})
    assert main(["collect", "01", "uploads"]) == 1
    output = capsys.readouterr().out
    assert "\x1b" not in output and "\\x1b[2J.ipynb\n" in output
    assert output.endswith(f"2 files: 1 collected, 1 not collected.\nNext: distlib grade {NAME}\n")
    assert main(["collect", "01", "uploads/ada.ipynb"]) == 0
    assert "ada  unchanged      ada.ipynb" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["01", "none.zip"], "none.zip: there is no such file or folder"),
        (["01", "nbgrader_config.py"], "it is not a folder, a zip file or a notebook"),
        (["09", "uploads"], "there is no solutions/09/09.ipynb"),
        (["00", "uploads"], "lesson 00_start_here has no exercise; assignments: 01_tiny"),
        (["01", "uploads", "--times-in", "Berlin"], "there is no time zone 'Berlin'"),
    ],
)
def test_what_the_command_refuses(
    tiny: TinyCourse,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tiny.root)
    (tiny.root / "uploads").mkdir()
    (tiny.root / "course" / "00_start_here.ipynb").write_text("{}")
    assert main(["collect", *words]) == 1
    assert message in capsys.readouterr().err


def test_what_was_not_collected_is_kept_for_the_report_until_it_is_mended(tiny: TinyCourse) -> None:
    lesson = json.dumps(LESSON).encode()
    first = put_zip(tiny, {"ada/work.ipynb": work(tiny), "bob/work.ipynb": lesson, "eve/work.ipynb": b"{"})
    second = put(tiny.root / "late", {"work.ipynb": lesson})
    run(tiny, first)
    run(tiny, second)

    def refused() -> list[tuple[str, str]]:
        found = read_refused(open_course(tiny.root), NAME)
        assert all(isinstance(each, Refused) and each.why for each in found)
        return [(each.student, each.file) for each in found]

    assert {student for student, _ in refused()} >= {"bob", "eve"} and len(refused()) == 3
    before = refused()
    run(tiny, first)
    assert refused() == before  # collecting again changes nothing
    run(tiny, put(tiny.root / "mended", {"bob/work.ipynb": work(tiny)}))
    assert "bob" not in {student for student, _ in refused()} and len(refused()) == 2
    (second / "work.ipynb").unlink()
    run(tiny, second)
    assert [student for student, _ in refused()] == ["eve"]
