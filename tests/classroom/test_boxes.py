"""Collecting from boxes: whose box it is decides, and nothing that a student puts into one leads out of it."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from distlib.classroom.uploads import boxes
from distlib.classroom.uploads.boxes import CollectFromBoxes, copy_plain_files

NAME = "02_all_reduce"


@pytest.fixture(scope="module")
def empty_gradebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new one, for which nbgrader starts alembic."""
    path = tmp_path_factory.mktemp("empty") / "gradebook.db"
    Gradebook(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def inbound(empty_gradebook: Path, tmp_path: Path) -> Path:
    """The folder of all boxes."""
    shutil.copy(empty_gradebook, tmp_path)
    folder = tmp_path / "exchange" / "dt101" / "inbound"
    folder.mkdir(parents=True)
    return folder


def hand_in(box: Path, text: str, student: str = "", ago: float = 0, secret: str = "5" * 64) -> Path:
    """What `nbgrader submit` puts into a box, `ago` seconds ago by its own account."""
    when = (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
    folder = box / f"{student or box.name}+{NAME}+{when}+Xk3_"
    folder.mkdir(parents=True)
    (folder / f"{NAME}.ipynb").write_text(text)
    (folder / "timestamp.txt").write_text(when)
    (folder / "submission_secret.txt").write_text(secret)
    return folder


def collect(inbound: Path, **options: bool) -> dict[str, str]:
    """The notebooks that `nbgrader collect` has collected, by student."""
    root = inbound.parents[2]
    config = Config()
    directory = {"root": str(root), "course_id": "dt101", "assignment_id": NAME}
    config.CourseDirectory = Config(directory, db_url=f"sqlite:///{root}/gradebook.db")
    config.Exchange = Config(root=str(root / "exchange"))
    CollectFromBoxes(coursedir=CourseDirectory(config=config), config=config, **options).start()
    return {path.parts[-3]: path.read_text() for path in root.glob(f"submitted/*/{NAME}/{NAME}.ipynb")}


def said_time(inbound: Path, student: str) -> datetime:
    path = inbound.parents[2] / "submitted" / student / NAME / "timestamp.txt"
    return datetime.strptime(path.read_text(), "%Y-%m-%d %H:%M:%S.%f %Z").replace(tzinfo=UTC)


def test_the_latest_of_each_student_is_collected(inbound: Path) -> None:
    for student in ("ada", "bob"):
        hand_in(inbound / student, f"{student}'s first", ago=20)
        hand_in(inbound / student, f"{student}'s second", ago=10)
    assert collect(inbound) == {"ada": "ada's second", "bob": "bob's second"}


def test_a_newer_one_replaces_it_if_asked(inbound: Path) -> None:
    hand_in(inbound / "ada", "first", ago=20)
    collect(inbound)
    hand_in(inbound / "ada", "second")
    assert collect(inbound) == {"ada": "first"}
    assert collect(inbound, update=True) == {"ada": "second"}


def test_the_box_says_whose_it_is(inbound: Path) -> None:
    hand_in(inbound / "ada", "ada's")
    hand_in(inbound / "bob", "bob's, in her name", student="ada", ago=-5)
    assert collect(inbound) == {"ada": "ada's", "bob": "bob's, in her name"}


def test_a_link_to_the_work_of_others_is_not_followed(inbound: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = hand_in(inbound / "ada", "ada's")
    file = hand_in(inbound / "bob", "", ago=20) / f"{NAME}.ipynb"
    file.unlink()
    file.symlink_to(secret / f"{NAME}.ipynb")
    (inbound / "eve").mkdir()
    (inbound / "eve" / secret.name).symlink_to(secret)
    (hand_in(inbound / "guy", "guy's") / "more").symlink_to(secret)
    assert collect(inbound) == {"ada": "ada's", "guy": "guy's"}
    assert "of bob" in caplog.text and "of eve" in caplog.text
    assert not list(inbound.parents[2].glob("submitted/guy/**/more"))


def test_what_cannot_be_collected_stops_nobody(inbound: Path) -> None:
    os.mkfifo(hand_in(inbound / "ada", "") / "pipe")
    (inbound / "bob").mkdir()
    os.mkfifo(inbound / "bob" / f"bob+{NAME}+2030-01-01 00:00:00 UTC+x")
    (inbound / "cat").touch()  # as little to be read as a box with no permissions
    below = hand_in(inbound / "dan", "") / "/".join("x" * 600)
    below.mkdir(parents=True)
    for file in ("timestamp.txt", "submission_secret.txt"):
        folder = hand_in(inbound / file[:4], "")
        (folder / file).unlink()
        (folder / file).mkdir()
    for number, name in enumerate(
        (f"a+{NAME}+no time+x", f"a+{NAME}+99999-1-1 x UTC+x", f"{NAME}+", f"a+{NAME}", "+++")
    ):
        (inbound / f"student-{number}" / name).mkdir(parents=True)
    hand_in(inbound / "zoe", "zoe's")
    assert collect(inbound) == {"zoe": "zoe's"}


@pytest.mark.slow
def test_neither_does_what_is_too_large(inbound: Path) -> None:
    for student, size in (("ada", 100_000_000), ("bob", 100_001_000), ("dan", 1 << 40)):
        with (hand_in(inbound / student, "") / "large").open("wb") as file:
            file.truncate(size)
    for number in range(boxes.MOST_ENTRIES):
        (inbound / "eve" / f"eve+{NAME}+2030-01-01 00:00:00 UTC+x" / str(number) / "more").mkdir(parents=True)
    (hand_in(inbound / "guy", "guy's") / "fits").write_bytes(bytes(90_000_000))
    hand_in(inbound / "zoe", "zoe's")
    assert collect(inbound) == {"guy": "guy's", "zoe": "zoe's"}


def test_a_time_that_is_not_true_does_not_count(inbound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time counts that the system confirms, here to half a day."""
    monkeypatch.setattr(boxes, "_SUBMITTING", timedelta(hours=12))
    ada = hand_in(inbound / "ada", "ada's", ago=30)
    bob = hand_in(inbound / "bob", "bob's", ago=86_400)
    eve = hand_in(inbound / "eve", "eve's", ago=-86_400)
    collect(inbound)
    assert f"{said_time(inbound, 'ada'):%Y-%m-%d %H:%M:%S.%f} UTC" == (ada / "timestamp.txt").read_text()
    for name, folder in (("bob", bob), ("eve", eve)):
        assert said_time(inbound, name) == datetime.fromtimestamp(last_change(folder), UTC)


def last_change(folder: Path) -> float:
    """When a folder or something in it was changed, as the system saw it."""
    return max(path.stat().st_ctime for path in (folder, *folder.rglob("*")))


def test_every_submission_gets_a_secret_that_nbgrader_can_use(inbound: Path) -> None:
    hand_in(inbound / "ada", "", secret="é" * 64)
    (hand_in(inbound / "bob", "") / "submission_secret.txt").unlink()
    hand_in(inbound / "eve", "")
    collect(inbound)
    secrets = {
        path.parts[-3]: path.read_text()
        for path in inbound.parents[2].glob(f"submitted/*/{NAME}/submission_secret.txt")
    }
    assert secrets["eve"] == "5" * 64
    assert len(secrets["ada"]) == len(secrets["bob"]) == 128 and secrets["ada"] != secrets["bob"]


def test_a_copy_tells_when_the_last_change_was(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deeper").mkdir(parents=True)
    (source / "deeper" / "file").write_text("text")
    for path in (source / "deeper" / "file", source / "deeper", source):
        os.utime(path, (0, 0))
    assert copy_plain_files(source, tmp_path / "target", 1000) == last_change(source)
    assert (tmp_path / "target" / "deeper" / "file").read_text() == "text"
    shutil.rmtree(source)
    with pytest.raises(OSError):
        copy_plain_files(source, tmp_path / "other", 1000)


def test_a_change_while_it_is_copied_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A student can watch a file being opened, and change it before it is read."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "file").write_text("in time")
    before = last_change(source)

    def open_later(*words: Any, **options: Any) -> Any:
        while last_change(source) == before:  # until the clock of the file system has gone on
            (source / "file").write_text("too late")
        return open(*words, **options)

    monkeypatch.setattr(boxes, "open", open_later, raising=False)
    changed = copy_plain_files(source, target, 1000)
    assert (target / "file").read_text() == "too late" and changed > before
