"""When uploads were handed in: files all of one time are asked about, tables are read, LATE is told."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from distlib.classroom.grader.class_run import grade_class
from distlib.classroom.grader.course import open_course
from distlib.classroom.grader.marks import notes
from distlib.cli import main
from tests.classroom.test_collect import work
from tests.tools.tiny_course import NAME, TinyCourse, simple_judges

CLASS = """\
id,first_name,last_name,email,lms_user_id
s01,Ana,Souza,ana@x.org,1201
s02,Wei,Zhang,wei1@x.org,1202
s03,Wei,Zhang,wei2@x.org,1203
"""
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Last modified (submission),Feedback comments
Participant 71,Ana Souza,ana@x.org,Submitted for grading,,"Sunday, 2 November 2025, 9:50 PM",
Participant 72,Wei Zhang,wei1@x.org,Submitted for grading,,"Monday, 3 November 2025, 12:05 AM",
Participant 73,Wei Zhang,wei2@x.org,No submission,,-,
"""


@pytest.fixture
def tiny(tiny_course: TinyCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyCourse:
    made = tiny_course.copy_to(tmp_path / "course")
    (made.root / "classroom" / "students.csv").write_text(CLASS)
    monkeypatch.chdir(made.root)
    return made


def pack(tiny: TinyCourse, members: Mapping[str, int]) -> None:
    """A zip file, with the second of each file's time."""
    with zipfile.ZipFile(tiny.root / "all.zip", "w") as archive:
        for name, second in members.items():
            minute, second = divmod(second, 60)
            archive.writestr(zipfile.ZipInfo(name, (2025, 11, 4, 8, minute, second)), work(tiny, f"\n# {name}"))


def times(tiny: TinyCourse) -> dict[str, str]:
    found = tiny.root.glob(f"classroom/submitted/*/{NAME}/timestamp.txt")
    return {path.parents[1].name: path.read_text().strip() for path in sorted(found)}


BERLIN = ["--times-in", "Europe/Berlin"]
TWO = {f"souzaana_1201_1_{NAME}.ipynb": 0, f"zhangwei_1202_2_{NAME}.ipynb": 58}


def test_files_all_of_one_time_are_asked_about(tiny: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    pack(tiny, TWO)
    assert main(["collect", NAME, "all.zip", *BERLIN]) == 1
    printed = capsys.readouterr().out
    assert "2 files: 2 collected. Of 2 no time of handing in is known." in printed
    assert (
        "all 2 uploads have the same one, 2025-11-04 08:00, when they were packed, it seems. Add --times TABLE"
        in printed
    )
    assert times(tiny) == {}
    assert main(["collect", NAME, "all.zip", *BERLIN, "--believe-times"]) == 0
    assert times(tiny) == {"s01": "2025-11-04 07:00:00 UTC", "s02": "2025-11-04 07:00:58 UTC"}


def test_times_that_differ_and_a_single_one_are_taken(tiny: TinyCourse) -> None:
    pack(tiny, dict(zip(TWO, (0, 90), strict=True)))
    assert main(["collect", NAME, "all.zip", *BERLIN]) == 0
    assert times(tiny) == {"s01": "2025-11-04 07:00:00 UTC", "s02": "2025-11-04 07:01:30 UTC"}


def test_moodles_worksheet_says_when_and_whose_each_number_is(tiny: TinyCourse) -> None:
    """Two students of one name differ by nothing else."""
    pack(
        tiny,
        {
            f"{name}_{number}_assignsubmission_file/x.ipynb": 0
            for name, number in (("Ana Souza", 71), ("Wei Zhang", 72))
        },
    )
    (tiny.root / "Grades.csv").write_text(MOODLE)
    assert main(["collect", NAME, "all.zip"]) == 1
    assert main(["collect", NAME, "all.zip", "--times", "Grades.csv", *BERLIN]) == 0
    assert times(tiny) == {"s01": "2025-11-02 20:50:00 UTC", "s02": "2025-11-02 23:05:00 UTC"}


def test_a_worksheet_of_one_who_is_in_the_class_twice_settles_nothing(
    tiny: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without addresses the two rows of one name are nobody's."""
    pack(tiny, {"Wei Zhang_72_assignsubmission_file/x.ipynb": 0, "Wei Zhang_73_assignsubmission_file/x.ipynb": 0})
    without = "\n".join(",".join(line.split(",")[:2] + line.split(",")[3:]) for line in MOODLE.splitlines())
    (tiny.root / "Grades.csv").write_text(without)
    assert main(["collect", NAME, "all.zip", "--times", "Grades.csv", *BERLIN]) == 1
    assert (
        "These rows of the table of times are nobody's, or those of several: 'Participant 72 Wei"
        in capsys.readouterr().out
    )
    (tiny.root / "classroom" / "students.csv").write_text(CLASS.replace("s03,Wei,Zhang,wei2", "s03,Bo,Yi,bo"))
    assert main(["collect", NAME, "all.zip", "--times", "Grades.csv", *BERLIN]) == 1
    assert not list(tiny.root.glob("classroom/submitted/*")), "the second of that name is not the first one"


@pytest.mark.parametrize(
    "table",
    [
        "id,time\ns01,2025-11-02 21:50 Europe/Berlin\ns02,2025-11-03 00:05 +01:00\n",
        "id;time\ns01;2025-11-02T20:50:00Z\ns02;2025-11-02T23:05:00Z\n",
        "user_id,submitted_at\n1201,2025-11-02T20:50:00Z\n1202,2025-11-02T23:05:00Z\n",
        "Student,ID,SIS Login ID,submitted_at\n,1201,s01,2025-11-02T20:50:00Z\n,1202,s02,2025-11-02T23:05:00Z\n",
        "Email,Time\nana@x.org,2 November 2025 20:50 UTC\nwei1@x.org,2 November 2025 23:05 UTC\n",
    ],
)
def test_tables_of_times(tiny: TinyCourse, table: str) -> None:
    pack(tiny, TWO)
    (tiny.root / "times.csv").write_text(table)
    assert main(["collect", NAME, "all.zip", "--times", "times.csv"]) == 0
    assert times(tiny) == {"s01": "2025-11-02 20:50:00 UTC", "s02": "2025-11-02 23:05:00 UTC"}


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            "id,time\ns01,2025-11-02 21:50\n",
            [],
            "times.csv: its times, such as '2025-11-02 21:50', name no time zone: add",
        ),
        ("id,when\ns01,x\n", BERLIN, "times.csv: it needs a column time and one that says whose: id, email or user_id"),
        ("\n", BERLIN, "It has nothing"),
    ],
)
def test_a_table_that_can_t_be_used_stops(
    tiny: TinyCourse, capsys: pytest.CaptureFixture[str], table: str, options: list[str], message: str
) -> None:
    pack(tiny, TWO)
    (tiny.root / "times.csv").write_text(table)
    assert main(["collect", NAME, "all.zip", "--times", "times.csv", *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(tiny.root.glob("classroom/submitted/*/*"))


def test_what_a_table_does_not_say_is_told(tiny: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    pack(tiny, TWO)
    (tiny.root / "times.csv").write_text("id,time\ns02,03.11.2025 10:00\ns99,2025-11-02 20:50 UTC\n")
    assert main(["collect", NAME, "all.zip", "--times", "times.csv", *BERLIN]) == 1
    printed = capsys.readouterr().out
    assert "no time of handing in: the table has none for it" in printed
    assert "the one in the table, '03.11.2025 10:00', may be 11 March 2025 or 3 November 2025" in printed
    assert "These rows of the table of times are nobody's, or those of several: 's99 2025-11-02 20:50 UTC'." in printed
    assert times(tiny) == {}


def test_late_is_told_when_collecting_and_when_grading(tiny: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny.root / "nbgrader_config.py"
    config.write_text(config.read_text() + '\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    pack(tiny, {f"souzaana_LATE_1201_1_{NAME}.ipynb": 0, f"zhangwei_1202_2_{NAME}.ipynb": 0})
    assert main(["collect", NAME, "all.zip"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("Canvas says that it was handed in late") == 1
    assert (
        "2 files: 2 collected. Of 1 a platform says that it is late, and not how late: --times TABLE says when."
        in printed
    )
    assert main(["class", "due", NAME, "2025-11-02 21:00 UTC"]) == 0
    graded = grade_class(open_course(tiny.root), NAME, simple_judges, jobs=1, patience=60.0)
    assert graded.without_time == {"s01": "late, Canvas says", "s02": "no timestamp.txt"}
    assert "No time of handing in is known for s01 (late, Canvas says) and s02 (no timestamp.txt)" in "".join(
        notes(graded)
    )
