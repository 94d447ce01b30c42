"""A file is written at once, and as if it had been opened."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from distlib.whole_file import write_file


def test_a_file_is_replaced_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    for content in (b"old", b"new"):
        write_file(path, content)
    assert path.read_bytes() == b"new" and [each.name for each in path.parent.iterdir()] == ["file.json"]
    opened = tmp_path / "opened"
    opened.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(opened.stat().st_mode)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file" / "below").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_file(tmp_path / "file", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_threads_leave_what_new_files_may_be_read_by(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: write_file(tmp_path / "file", b"%d" % number), range(400)))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_what_a_killed_process_has_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    old, new, of_another = tmp_path / ".[a].0.new", tmp_path / ".[a].1.new", tmp_path / ".a.0.new"
    for path in (old, new, of_another):
        path.touch()
    for path in (old, of_another):
        os.utime(path, (0, 0))
    write_file(tmp_path / "[a]", b"new")
    assert {each.name for each in tmp_path.iterdir()} == {"[a]", new.name, of_another.name}
