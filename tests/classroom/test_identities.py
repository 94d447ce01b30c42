"""Whose an upload is: every name in one way, or a question. Nobody becomes a student by uploading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.grader.refused import read_refused
from distlib.classroom.register.aliases import typed_alias
from distlib.classroom.uploads.collect import COLLECTED, LEFT_OUT, PROBLEM, UNCHANGED
from distlib.cli import main
from tests.classroom.test_collect import put, put_zip, run, states, submitted, work, zipped
from tests.tools.tiny_course import NAME, TinyCourse

MOODLE = "{}_{}_assignsubmission_file"
CLASS = """\
id,first_name,last_name,email,lms_user_id
s01,Ana,Souza,ana@x.org,1201
s02,Wei,Zhang,wei1@x.org,1202
s03,Wei,Zhang,wei2@x.org,1203
s04,Anna-Lena,Braun,lena@x.org,1204
s05,Lena,Braun,braun@x.org,1205
s06,Zoë,O'Hara,zoe@x.org,
s07,Sukarno,,sukarno@x.org,1207
s08,Ada,Lovelace,ada@x.org,1208
"""


@pytest.fixture
def tiny(tiny_course: TinyCourse, tmp_path: Path) -> TinyCourse:
    """A course with a class."""
    made = tiny_course.copy_to(tmp_path / "course")
    (made.root / "classroom" / "students.csv").write_text(CLASS)
    return made


def say(tiny: TinyCourse, written: str, student: str) -> None:
    assert main(["class", "alias", written, student, "--course", str(tiny.root)]) == 0


# ── one upload ───────────────────────────────────────────────────────────────────────────────────────────────────────

ASKED = ""
ONE_BY_ONE = {
    # a name as Moodle has it, with a group in front of it, in either order
    f"{MOODLE.format('Ana Souza', 9)}/x.ipynb": "s01",
    f"{MOODLE.format('Souza Ana', 9)}/x.ipynb": "s01",
    f"{MOODLE.format('Section 3-Ana Souza', 9)}/x.ipynb": "s01",
    f"{MOODLE.format('Group A-1-Ana Souza', 9)}/x.ipynb": "s01",
    f"{MOODLE.format('Section 3-Zoë O’Hara', 9)}/x.ipynb": "s06",
    f"{MOODLE.format('Sukarno', 9)}/x.ipynb": "s07",
    f"Ana Souza_9_assignsubmission_file_{NAME}.ipynb": "s01",
    # two readings, two students, or none
    f"{MOODLE.format('Anna-Lena Braun', 9)}/x.ipynb": ASKED,
    f"{MOODLE.format('Wei Zhang', 9)}/x.ipynb": ASKED,
    f"{MOODLE.format('Section 3-Wei Zhang', 9)}/x.ipynb": ASKED,
    f"{MOODLE.format('Ana Sousa', 9)}/x.ipynb": ASKED,
    f"{MOODLE.format('Ana Souza Dias', 9)}/x.ipynb": ASKED,
    f"{MOODLE.format('Participant', 1201)}/x.ipynb": ASKED,
    # Moodle's number is no student's own
    f"{MOODLE.format('Nobody', 1202)}/x.ipynb": ASKED,
    # a separator in a name or in the name of a file
    f"{MOODLE.format('Ada Lovelace_1_assignsubmission_file_x', 8)}/x.ipynb": ASKED,
    "Ana Souza_9_assignsubmission_file_Ada Lovelace_8_assignsubmission_file_x.ipynb": ASKED,
    f"{MOODLE.format('zhangwei_1202_5_x', 8)}/x.ipynb": ASKED,
    "souzaana_1201_77_Ada Lovelace_8_assignsubmission_file_x.ipynb": ASKED,
    # Canvas: by number; a name that is another one's is asked about
    f"zhangwei_1203_77_{NAME}.ipynb": "s03",
    f"zhangwei_LATE_1202_77_{NAME}.ipynb": "s02",
    # a student may choose a name in Canvas, and that of a file, with another one's number in it
    f"x_1201_1205_77_{NAME}.ipynb": ASKED,
    f"souzaana_1201_1205_77_{NAME}.ipynb": ASKED,
    f"x_1201_82_LATE_1205_77_{NAME}.ipynb": ASKED,
    "souzaana_1201_77_1205_3_x.ipynb": ASKED,
    "souzaana_1201_77_2026_11_02.ipynb": "s01",
    "souzaana_1201_77_1201_78_x.ipynb": "s01",
    f"anasouzadias_1201_77_{NAME}.ipynb": "s01",
    f"ohazoe_55_77_{NAME}.ipynb": ASKED,
    f"oharazoë_55_77_{NAME}.ipynb": "s06",
    f"zhangwei_55_77_{NAME}.ipynb": ASKED,
    f"souzaana_55_77_{NAME}.ipynb": ASKED,
    f"souzaana_1208_77_{NAME}.ipynb": ASKED,
    # ours, and others
    f"{NAME}--ana-souza.ipynb": "s01",
    f"{NAME}--S01.ipynb": "s01",
    f"{NAME}--zoe@x.org.ipynb": "s06",
    f"{NAME}--wei-zhang.ipynb": ASKED,
    f"{NAME}--ana.ipynb": ASKED,
    "s08/x.ipynb": "s08",
    "ada lovelace.ipynb": "s08",
    "section 3-ana souza.ipynb": ASKED,
}


@pytest.mark.parametrize(("name", "student"), ONE_BY_ONE.items())
def test_one_upload(tiny: TinyCourse, name: str, student: str) -> None:
    (outcome,) = run(tiny, put(tiny.root / "up", {name: work(tiny)})).values()
    assert (outcome.student, outcome.state) == (student, PROBLEM if student == ASKED else COLLECTED), outcome.why
    assert submitted(tiny) == [student] * bool(student)
    assert bool(student) or "distlib class alias " in outcome.why or "Rename the file" in outcome.why


@pytest.mark.parametrize("name", [name for name, student in ONE_BY_ONE.items() if student == ASKED])
def test_the_command_in_a_question_settles_it(tiny: TinyCourse, name: str) -> None:
    up = put(tiny.root / "up", {name: work(tiny)})
    (outcome,) = run(tiny, up).values()
    if "only that number may stay" in outcome.why:
        (up / name).rename(up / "x_1203_77_x.ipynb")
    elif "Rename the file" in outcome.why:
        (up / name).rename(up / "s03.ipynb")
    else:
        say(tiny, outcome.why.split("distlib class alias ")[1].split(" STUDENT")[0], "s03")
    assert [(each.student, each.state) for each in run(tiny, up).values()] == [("s03", COLLECTED)]
    assert read_refused(open_course(tiny.root), NAME) == []


def test_candidates_are_named_and_the_command_says_so_with_its_status(
    tiny: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tiny.root / "up", {f"{NAME}--wei-zhang.ipynb": work(tiny), f"{NAME}--ana-sousa.ipynb": work(tiny)})
    assert main(["collect", NAME, str(tiny.root / "up"), "--course", str(tiny.root)]) == 1
    printed = capsys.readouterr().out
    assert '"wei-zhang" may be s02 (Wei Zhang, wei1@x.org) or s03 (Wei Zhang, wei2@x.org).' in printed
    assert '"ana-sousa" is not in students.csv, but there is s01 (Ana Souza, ana@x.org)' in printed
    assert "distlib class alias ana-sousa STUDENT" in printed


# ── several uploads ──────────────────────────────────────────────────────────────────────────────────────────────────


def one_name(tiny: TinyCourse, number: int) -> dict[str, bytes]:
    return {f"{MOODLE.format('Ada Lovelace', number)}/x.ipynb": work(tiny, f"\n# {number}")}


def test_two_of_one_name_in_one_zip_file_are_asked_about(tiny: TinyCourse) -> None:
    """Also where the roster knows one of them only, and where there is no roster."""
    for _ in range(2):
        found = run(tiny, put_zip(tiny, {**one_name(tiny, 7), **one_name(tiny, 8)}))
        assert [(each.student, each.state) for each in found.values()] == [("", PROBLEM)] * 2
        assert {each.why.split("Say")[1] for each in found.values()} == {
            f" who it is: distlib class alias ada-lovelace_{number} STUDENT" for number in (7, 8)
        }
        (tiny.root / "classroom" / "students.csv").unlink(missing_ok=True)
    assert submitted(tiny) == []
    say(tiny, "Ada Lovelace_7", "ada-1")
    say(tiny, "ada-lovelace_8", "ada-2")
    run(tiny, tiny.root / "all.zip")
    assert submitted(tiny) == ["ada-1", "ada-2"]


@pytest.mark.parametrize("with_roster", [True, False])
@pytest.mark.parametrize("are_alike", [True, False])
def test_two_of_one_name_in_two_zip_files_are_asked_about(tiny: TinyCourse, with_roster: bool, are_alike: bool) -> None:
    if not with_roster:
        (tiny.root / "classroom" / "students.csv").unlink()
    run(tiny, put_zip(tiny, one_name(tiny, 7), "first.zip"))
    (first,) = submitted(tiny)
    second = put_zip(tiny, {f"{MOODLE.format('Ada Lovelace', 8)}/x.ipynb": work(tiny, f"\n# {7 + (not are_alike)}")})
    (outcome,) = run(tiny, second).values()
    assert outcome.state == PROBLEM and outcome.student == "" and "Moodle's 7" in outcome.why
    assert b"# 7" in (tiny.folder(first) / f"{NAME}.ipynb").read_bytes()
    say(tiny, "ada-lovelace_8", "s01")
    assert list(states(run(tiny, second)).values()) == [("s01", COLLECTED)]
    assert list(states(run(tiny, tiny.root / "first.zip")).values()) == [(first, UNCHANGED)]


def test_a_name_alone_replaces_nothing_that_a_platform_has_numbered(tiny: TinyCourse) -> None:
    run(tiny, put_zip(tiny, {f"lovelaceada_1208_5_{NAME}.ipynb": work(tiny)}))
    for name in (f"{MOODLE.format('Ada Lovelace', 7)}/x.ipynb", f"{NAME}--ada-lovelace.ipynb"):
        (outcome,) = run(tiny, put(tiny.root / name[:5], {name: work(tiny, "\n# other")})).values()
        assert (outcome.student, outcome.state) == ("", PROBLEM) and "Canvas's 1208" in outcome.why
    (outcome,) = run(tiny, put(tiny.root / "same", {f"{NAME}--ada-lovelace.ipynb": work(tiny)})).values()
    assert outcome.state == UNCHANGED
    again = {f"lovelaceada_1208_6_{NAME}.ipynb": work(tiny, "\n# again")}
    assert list(states(run(tiny, put_zip(tiny, again, "again.zip"))).values()) == [("s08", COLLECTED)]


def test_what_was_said_of_a_name_holds_for_one_number_at_a_time(tiny: TinyCourse) -> None:
    """In the next exercise the number is a new one; two numbers in one exercise are two students."""
    say(tiny, "Section 3-Wei Zhang", "s02")
    name = MOODLE.format("Section 3-Wei Zhang", "{}") + "/x.ipynb"
    (outcome,) = run(tiny, put_zip(tiny, {name.format(7): work(tiny)}, "first.zip")).values()
    assert (outcome.student, outcome.state) == ("s02", COLLECTED)
    (outcome,) = run(tiny, put_zip(tiny, {name.format(8): work(tiny, "\n# 8")})).values()
    assert outcome.state == PROBLEM and "and so is Moodle's 7. Say who it is: distlib class alias" in outcome.why
    say(tiny, "Section 3-Wei Zhang_8", "s03")
    assert list(states(run(tiny, tiny.root / "all.zip")).values()) == [("s03", COLLECTED)]


def test_a_name_of_somebody_else_can_t_be_said_to_be_a_students(
    tiny: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, whose in (("ada-lovelace", "s08"), ("Wei Zhang", "s03")):
        assert main(["class", "alias", name, "s02", "--course", str(tiny.root)]) == 1
        assert f"is the name of {whose}: rename the file after its student instead" in capsys.readouterr().err
    (tiny.root / "classroom" / "aliases.csv").write_text("written,student\nada-lovelace,s02\n")
    (outcome,) = run(tiny, put(tiny.root / "up", {"ada lovelace.ipynb": work(tiny)})).values()
    assert outcome.student == "s08"


def test_a_platforms_name_among_other_files_is_a_claim(tiny: TinyCourse) -> None:
    run(tiny, put_zip(tiny, {f"lovelaceada_1208_5_{NAME}.ipynb": work(tiny)}))
    names = (f"lovelaceada_1208_6_{NAME}.ipynb", f"zhangwei_1202_7_{NAME}.ipynb", "s01.ipynb")
    found = run(tiny, put(tiny.root / "up", {name: work(tiny, f"\n# {name}") for name in names}))
    assert [found[name].state for name in names] == [PROBLEM, PROBLEM, COLLECTED]
    assert "If it is: distlib class alias lovelaceada s08. If not: rename the file" in found[names[0]].why
    say(tiny, "lovelaceada", "s08")
    assert run(tiny, tiny.root / "up")[names[0]].state == COLLECTED


# ── a folder in the only folder ──────────────────────────────────────────────────────────────────────────────────────

BORROWED = [
    ["s08/x.ipynb", "Ana Souza/x.ipynb"],
    [f"{NAME}--ada-lovelace.ipynb"],
    [f"{MOODLE.format('Ada Lovelace', 7)}/x.ipynb"],
    [f"lovelaceada_1208_5_{NAME}.ipynb"],
    ["ada.zip", "s01.zip"],
]


@pytest.mark.parametrize("names", BORROWED)
@pytest.mark.parametrize("as_zip", [False, True])
def test_what_lies_in_a_students_folder_is_that_students(tiny: TinyCourse, names: list[str], as_zip: bool) -> None:
    run(tiny, put(tiny.root / "first", {"s08/x.ipynb": work(tiny)}))
    content = {name: work(tiny, "\n# mine") for name in names}
    inside = {name: zipped({"x.ipynb": text}) if name.endswith(".zip") else text for name, text in content.items()}
    if as_zip:
        source = put_zip(tiny, inside, "sukarno.zip")
    else:
        source = put(tiny.root / "up", {f"sukarno/{name}": text for name, text in inside.items()})
    assert {(each.student, each.state) for each in run(tiny, source).values()} <= {
        ("s07", COLLECTED),
        ("s07", LEFT_OUT),
    }
    assert submitted(tiny) == ["s07", "s08"]
    assert b"# mine" not in (tiny.folder("s08") / f"{NAME}.ipynb").read_bytes()


@pytest.mark.parametrize("names", BORROWED[:4])
@pytest.mark.parametrize("with_roster", [True, False])
def test_a_name_in_a_folder_of_nobody_replaces_nothing(tiny: TinyCourse, names: list[str], with_roster: bool) -> None:
    if not with_roster:
        (tiny.root / "classroom" / "students.csv").unlink()
    first = {"s08.ipynb": work(tiny), "ada-lovelace.ipynb": work(tiny), "lovelaceada.ipynb": work(tiny)}
    for name, content in list(first.items())[: 1 if with_roster else 3]:
        run(tiny, put(tiny.root / "first", {name: content}) / name)
    up = put(tiny.root / "up", {f"unknown/{name}": work(tiny, "\n# mine") for name in names})
    found = [each for each in run(tiny, up).values() if each.student != "s01"]
    assert {(each.student, each.state) for each in found} == {("", PROBLEM)}
    assert all('lies in "unknown"' in each.why for each in found)
    assert all(
        b"# mine" not in path.read_bytes() for path in tiny.root.glob(f"classroom/submitted/[!s]*/*/{NAME}.ipynb")
    )


def test_a_folder_around_all_is_opened(tiny: TinyCourse) -> None:
    names = ("s08/x.ipynb", "s01/x.ipynb")
    run(tiny, put(tiny.root / "up", {f"handed in/{name}": work(tiny) for name in names}))
    assert submitted(tiny) == ["s01", "s08"]
    (tiny.root / "classroom" / "students.csv").unlink()
    run(tiny, put_zip(tiny, {f"week 3/{name}": work(tiny) for name in ("cy/x.ipynb", "di/x.ipynb")}, "week 3.zip"))
    assert submitted(tiny) == ["cy", "di", "s01", "s08"]
    found = run(tiny, put_zip(tiny, {f"eve/{name}": work(tiny) for name in ("flo/x.ipynb", "gus/x.ipynb")}))
    assert {each.state for each in found.values()} == {PROBLEM}
    say(tiny, "eve", "eve")
    assert {each.student for each in run(tiny, tiny.root / "all.zip").values()} == {"eve"}


# ── without a roster ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_roster_a_new_name_is_a_new_student_unless_it_may_be_known(tiny: TinyCourse) -> None:
    (tiny.root / "classroom" / "students.csv").unlink()
    run(tiny, put(tiny.root / "up", {f"{MOODLE.format('Ana Souza', 1)}/x.ipynb": work(tiny)}))
    (outcome,) = run(tiny, put_zip(tiny, {f"{MOODLE.format('Group 1-Ana Souza', 2)}/x.ipynb": work(tiny)})).values()
    assert outcome.state == PROBLEM and "may be ana-souza" in outcome.why
    assert submitted(tiny) == ["ana-souza"]


# ── the tables ───────────────────────────────────────────────────────────────────────────────────────────────────────

FORMS: Mapping[str, bytes] = {
    "semicolons": CLASS.replace(",", ";").encode(),
    "tabs": CLASS.replace(",", "\t").encode(),
    "a mark in front": b"\xef\xbb\xbf" + CLASS.encode(),
    "Excel's Unicode text": CLASS.replace(",", "\t").encode("utf-16"),
    "UTF-16 without a mark": CLASS.replace(",", ";").encode("utf-16-le"),
    "big-endian": CLASS.encode("utf-16-be"),
    "Windows": CLASS.replace(",", ";").replace("\n", "\r\n").encode("cp1252"),
    "a line about separators": ("sep=;\n" + CLASS.replace(",", ";")).encode(),
    "other heads": CLASS.replace("id,first_name,last_name", " ID ,First Name,Last name", 1).encode(),
    "quotes and blank lines": ("\n" + CLASS.replace("Zoë", '"Zoë"') + ",,,,\n").encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_roster_is_read_however_a_spreadsheet_has_saved_it(tiny: TinyCourse, form: str) -> None:
    (tiny.root / "classroom" / "students.csv").write_bytes(FORMS[form])
    found = run(tiny, put(tiny.root / "up", {f"{NAME}--zoë-o-hara.ipynb": work(tiny), "nobody.ipynb": work(tiny)}))
    assert [(each.student, each.state) for each in found.values()] == [("s06", COLLECTED), ("", PROBLEM)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"number,name\n1,Ana\n", "it has no column id; its first line is number, name"),
        (b"", "it has no column id; its first line is empty"),
        (b"id,first_name\n", "it names no student"),
        (b"id\ns1\ns1\n", "it has the id s1 twice"),
        (b"id,name\ns1,\x81\x8d\n", "it is no text in UTF-8, UTF-16 or Windows-1252; save it as CSV UTF-8"),
    ],
)
def test_a_roster_that_is_none_stops_with_its_name(tiny: TinyCourse, content: bytes, message: str) -> None:
    (tiny.root / "classroom" / "students.csv").write_bytes(content)
    with pytest.raises(CourseError, match="classroom/students.csv can't be read: " + message):
        run(tiny, put(tiny.root / "up", {"s01.ipynb": work(tiny)}))


def test_what_was_said_about_names(tiny: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str, status: int = 0) -> str:
        assert main(["class", "alias", *words, "--course", str(tiny.root)]) == status
        return "".join(capsys.readouterr())

    assert told() == "0 names in classroom/aliases.csv.\n"
    assert told("Wei Zhang_20168", "wei2", status=1).startswith("there is no student 'wei2'")
    assert "may be s02 and s03" in told("x", "Wei Zhang", status=1)
    assert told("Wei Zhang_20168", "s03").startswith("wei-zhang_20168 is s03\n1 name in classroom/aliases.csv.\n")
    assert told("ana", "ana souza").startswith("ana is s01\nwei-zhang_20168 is s03\n")
    assert told("wei", "--none", status=1).startswith("nothing was said about wei;")
    assert told("ana", "--none") == "wei-zhang_20168 is s03\n1 name in classroom/aliases.csv.\n"
    table = tiny.root / "classroom" / "aliases.csv"
    table.write_text("written;student\nAna;s01\nana;s02\n")
    assert "'ana' stands for two students" in told(status=1)
    table.write_text("written;student\nAna;s09\n")
    (outcome,) = run(tiny, put(tiny.root / "up", {"ana.ipynb": work(tiny)})).values()
    assert outcome.state == PROBLEM and "is s09, who is not in students.csv" in outcome.why


def test_nobody_can_choose_a_name_that_is_another_ones_with_a_number() -> None:
    assert typed_alias("Wei Zhang_20168") == "wei-zhang_20168" != typed_alias("Wei Zhang 20168")
    assert typed_alias("Wei Zhang_20168_5") == "wei-zhang-20168_5"
