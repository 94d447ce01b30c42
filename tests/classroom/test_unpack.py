"""Unpacking what a learning management system gives."""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path

import pytest

from distlib.classroom.grader import unpack
from distlib.classroom.grader.unpack import SafeExtractor


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where the zip files are, and where they go."""
    archive, extracted = tmp_path / "archive", tmp_path / "extracted"
    archive.mkdir()
    extracted.mkdir()
    return archive, extracted


def write_zip(path: Path, members: dict[str, str | bytes]) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path.read_bytes()


def extract(folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> tuple[list[str], list[str]]:
    """The files that are there afterwards, and the warnings."""
    extractor = SafeExtractor()
    extractor.log = logging.getLogger("unpack")
    with caplog.at_level(logging.WARNING, logger="unpack"):
        extractor.extract(*map(str, folders))
    files = [str(path.relative_to(folders[1])) for path in folders[1].rglob("*") if path.is_file()]
    return sorted(files), caplog.messages


def test_a_zip_file_and_the_zip_files_in_it(folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    inner = write_zip(folders[0].parent / "inner.zip", {"deep/a.ipynb": "a"})
    write_zip(folders[0] / "all.zip", {"Ada_1/b.ipynb": "b", "Bob_2/work.zip": inner})
    (folders[0] / "c.ipynb").write_text("c")
    files, warnings = extract(folders, caplog)
    assert files == ["all/Ada_1/b.ipynb", "all/Bob_2/work/deep/a.ipynb", "c.ipynb"]
    assert warnings == []


def test_what_can_not_be_unpacked_is_named_and_the_rest_is(
    folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    good = write_zip(folders[0].parent / "good.zip", {"a.ipynb": "a"})
    out = write_zip(folders[0].parent / "out.zip", {"../../../a.txt": "evil", "/etc/x": "evil", "b.ipynb": "b"})
    damaged = good.replace(b"a.ipynb", b"b.ipynb", 1)
    members = {"1/bad.zip": b"no zip", "2/out.zip": out, "3/damaged.zip": damaged, "4/good.zip": good}
    write_zip(folders[0] / "all.zip", {**members, "../evil.txt": "evil", "5/work.tar.gz": b"x"})
    files, warnings = extract(folders, caplog)
    assert files == ["all/2/out/b.ipynb", "all/4/good/a.ipynb", "all/5/work.tar.gz"]
    named = ["'../evil.txt' in", "1/bad.zip", "'../../../a.txt' in", "'/etc/x' in", "'a.ipynb' in"]
    assert len(warnings) == len(named) and all(name in text for name, text in zip(named, warnings, strict=True))
    everything = [path.name for path in folders[0].parent.rglob("*")]
    assert "evil.txt" not in everything and "a.txt" not in everything


def test_a_link_becomes_a_file(folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    link = zipfile.ZipInfo("link.ipynb")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(folders[0] / "all.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert extract(folders, caplog) == (["all/link.ipynb"], [])
    assert not (folders[1] / "all" / "link.ipynb").is_symlink()


def test_a_student_can_not_fill_the_disk(
    folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "MOST_BYTES", 1 << 20)
    bomb = write_zip(folders[0].parent / "bomb.zip", {"a.ipynb": bytes(2 << 20)})
    write_zip(folders[0] / "all.zip", {"1/bomb.zip": bomb, "2/a.ipynb": "a"})
    files, (warning,) = extract(folders, caplog)
    assert files == ["all/2/a.ipynb"]
    assert "bomb.zip (it holds more than 1 MiB)" in warning
