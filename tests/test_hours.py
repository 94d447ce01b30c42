"""The minutes and hours of the README, and the roads in lesson 00: those that the notebooks promise, and their sums."""

from __future__ import annotations

import re
from pathlib import Path

from distlib.classroom.my_course.lesson_promise import promise_of
from distlib.classroom.student_copies.notebook_json import read_notebook

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FIRST = (ROOT / "course" / "00_start_here.py").read_text()
LESSONS = [path.stem for path in sorted(ROOT.glob("course/[0-9]*.ipynb"))]
EXERCISES = [path.stem for path in sorted(ROOT.glob("exercises/*/*.ipynb"))]
ROWS = sorted({*LESSONS, *EXERCISES})  # of the table: lessons, and exercises that have none of their name
IN_ORDER = "18_gpus"  # of the main road, and optional: the last lesson does not need it


def minutes(stem: str) -> tuple[int, int]:
    """What a lesson and the exercise of its name promise; 0 where there is none."""
    paths = ROOT / "course" / f"{stem}.ipynb", ROOT / "exercises" / stem / f"{stem}.ipynb"
    lesson, exercise = (promise_of(read_notebook(path)).minutes if path.exists() else 0 for path in paths)
    return lesson, exercise


def hours(stems: list[str]) -> str:
    """Of some lessons with their exercises."""
    return f"{sum(sum(minutes(stem)) for stem in stems) / 60:.0f}"


def rows() -> list[tuple[str, int, int]]:
    """The rows of the table that end with minutes: what stands before these, and the two numbers."""
    found = re.findall(r"^\|(.*)\| ([\d,]*) ?\| ([\d,]*) ?\|$", README, re.MULTILINE)
    return [(text, *(int(number.replace(",", "") or 0) for number in numbers)) for text, *numbers in found]  # type: ignore[misc]


def parts() -> list[tuple[list[str], str]]:
    """The parts of the main road: the lessons of each, and its hours."""
    found = re.findall(r"^\| \*\*\d\. .*?\*\*, lessons (.*?) \|.*\| (\d+) \|$", README, re.MULTILINE)
    return [([stem for stem in LESSONS if _is_among(stem, words)], stated) for words, stated in found]


def _is_among(stem: str, words: str) -> bool:
    """Whether "12, 12b, 16 to 19" holds a lesson. Those with a letter are in no range: each is named."""
    number, spans = stem.partition("_")[0], re.split(r", | and ", words)
    ranges = [span.split(" to ") for span in spans if " to " in span]
    return number in spans or number.isdigit() and any(first <= number <= last for first, last in ranges)


def main_road() -> list[str]:
    """The lessons of all of its parts."""
    return [stem for stems, _ in parts() for stem in stems]


def test_each_row_has_the_minutes_that_its_lesson_and_its_exercise_promise() -> None:
    by_name = {}
    for text, *numbers in rows()[:-2]:
        ((folder, stem),) = re.findall(r"\((course|exercises/\w+)/(\w+)\.ipynb\)", text)
        by_name[stem] = tuple(numbers)
        assert (", an exercise, side road |" in f"{text}|") == (folder != "course") == (stem not in LESSONS), text
        assert (", side road |" in f"{text}|") == (stem not in main_road()), text
    assert by_name == {stem: minutes(stem) for stem in ROWS}


def test_the_sums() -> None:
    main, side = rows()[-2:]
    for (text, *numbers), wanted in ((main, True), (side, False)):
        stems = [stem for stem in ROWS if (stem in main_road()) == wanted]
        assert numbers == [sum(each) for each in zip(*map(minutes, stems), strict=True)]
        assert f": {hours(stems)} hours" in text


def test_the_first_screen_says_the_same_hours() -> None:
    assert len(parts()) == 4 and main_road() == sorted(main_road()) and LESSONS[0] in main_road()
    for stems, stated in parts():
        assert stated == hours(stems), stems
    assert f"the main road, {hours(main_road())} hours with all exercises" in README
    assert f"Side roads take {hours([stem for stem in ROWS if stem not in main_road()])} hours more" in README
    assert sum(int(stated) for _, stated in parts()) == int(hours(main_road())), "rounding must not show"


def test_the_first_lesson_names_the_same_roads() -> None:
    below = FIRST.split("# ## What comes next\n")[1].split("# ## Glossary\n")[0]
    main, side = below.split("are side roads</summary>")
    named = [re.findall(r"\]\((\d\w+)\.ipynb\)", text.partition("</details>")[0]) for text in (main, side)]
    assert named[0] == main_road()[1:], "it has no link to itself"
    assert named[1] == [stem for stem in LESSONS if stem not in main_road()]


def test_no_lesson_of_the_main_road_is_optional_but_one() -> None:
    optional = [stem for stem in LESSONS if promise_of(read_notebook(ROOT / "course" / f"{stem}.ipynb")).is_optional]
    assert [stem for stem in optional if stem in main_road()] == [IN_ORDER]


def test_every_row_is_listed_in_order() -> None:
    assert re.findall(r"^\| \[(\d\d[a-z]?)\b", README, re.MULTILINE) == [stem.partition("_")[0] for stem in ROWS]


def test_the_readme_calls_each_row_as_its_notebook_does() -> None:
    shown = re.findall(r"^\| \[\w+ (.+?)\]\(((?:course|exercises/\w+)/(\w+)\.ipynb)\)", README, re.MULTILINE)
    assert [stem for *_, stem in shown] == ROWS
    for name, path, _ in shown:
        title = promise_of(read_notebook(ROOT / path)).short_title
        assert name.split()[-1].lower() in title.lower(), f"{name} is {title} in its notebook"
