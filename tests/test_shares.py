"""Shares of the slow tests: each is in one, with all others about its lesson. The everyday tests are in all."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.shares import OTHERS_SECONDS, SECONDS, deal_out, in_time, of_other_shares, read_share

FILES = ("tests/notebooks/test_lessons.py", "tests/test_answers_fast.py", "tests/clinic")
OTHERS = ("tests/launch/test_elastic.py", "tests/docker/test_hub.py")
COUNT = 2


@cache
def collected(*options: str) -> frozenset[str]:
    """The names of the tests in these files."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run([*command, *FILES, *OTHERS], capture_output=True, text=True, timeout=200)
    return frozenset(re.findall(r"^tests/\S+::.+$", done.stdout, flags=re.MULTILINE))


SHARES = tuple(f"--share={number}/{COUNT}" for number in range(1, COUNT + 1))
EVERY_DAY = ("-m", "not slow")


@pytest.mark.slow
def test_each_slow_test_is_in_one_share_and_each_of_every_day_in_all() -> None:
    counts = Counter(name for share in SHARES for name in collected(share))
    assert set(counts) == collected()
    assert set(counts.values()) == {1, COUNT}
    in_all = {name for name, count in counts.items() if count == COUNT}
    assert collected(*EVERY_DAY) < in_all
    of_what_has_run = in_all - collected(*EVERY_DAY)
    assert all(name.startswith("tests/test_answers_fast.py") and "[" not in name for name in of_what_has_run)


@pytest.mark.slow
def test_what_is_about_one_lesson_or_in_one_file_is_together() -> None:
    slow = collected() - collected(*EVERY_DAY)
    for words in ("[13_tensorflow]", "[order_of_calls", *OTHERS):
        about = {name for name in slow if words in name}
        assert about and [about & collected(share) for share in SHARES].count(set()) == COUNT - 1, words


def slow_test(file: str, *parameters: str) -> Any:
    """What is asked of a test that pytest has collected."""
    callspec = {"callspec": SimpleNamespace(params=dict(enumerate(parameters)))} if parameters else {}
    return SimpleNamespace(path=Path(file), get_closest_marker=bool, **callspec)


def test_what_has_run_is_looked_at_only_where_something_has() -> None:
    """By itself such a test would have the answers to all exercises judged."""
    hub, about_one = slow_test("test_hub.py"), slow_test("test_answers_fast.py", "05_ddp")
    about_all = slow_test("test_answers_fast.py")
    assert of_other_shares([hub, about_one, about_all], 1, 2) == [about_one, about_all]
    assert of_other_shares([hub, about_one, about_all], 2, 2) == [hub]


def test_what_a_change_touches_is_not_left_to_its_share() -> None:
    """The closest first. What is too long for the time that is left is not taken, and shorter ones are."""
    hub, lesson, other = slow_test("test_hub.py"), slow_test("test_lessons.py", "01_messages"), slow_test("test_x.py")
    number = deal_out(["test_hub.py", "01_messages", "test_x.py"], 3)["test_hub.py"]
    assert of_other_shares([hub, lesson, other], number, 3) == [lesson, other]
    assert of_other_shares([hub, lesson, other], number, 3, ["test_x.py"]) == [lesson]
    assert in_time(["test_x.py", "13_tensorflow", "test_hub.py", "14_jax"]) == ["test_x.py", "13_tensorflow", "14_jax"]


def test_no_share_has_much_more_to_do_than_another() -> None:
    parts = [*SECONDS, *map(str, range(60))]
    dealt, seconds = deal_out(parts, 8), Counter[int]()
    for part in parts:
        seconds[dealt[part]] += SECONDS.get(part, OTHERS_SECONDS)
    assert len(seconds) == 8 and max(seconds.values()) - min(seconds.values()) <= OTHERS_SECONDS
    assert deal_out(reversed(parts), 8) == dealt


def test_what_takes_long_is_there(root: Path) -> None:
    """Each name in the table of seconds is a lesson's, an exercise's or a file's of tests."""
    files = {path.name for path in (root / "tests").rglob("test_*.py")}
    assert set(SECONDS) <= files | {path.stem for path in root.glob("course/*.py")} | {
        path.stem for path in root.glob("solutions/*/*.py")
    }


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "-1/4", "1/4/4", "a/b"])
def test_another_form_is_told(text: str) -> None:
    with pytest.raises(pytest.UsageError, match=re.escape(f"such as 2/4, got {text!r}")):
        read_share(text)


def test_a_commit_names_its_share(root: Path) -> None:
    """Any commit: a whole number from 1 to the number of shares."""
    line = subprocess.run(["make", "-n", "test-ci"], cwd=root, capture_output=True, text=True, timeout=100).stdout
    found = re.search(r"--share=(\d+)/(\d+)", line)
    assert found and read_share(found[0].removeprefix("--share="))
