"""A change and the slow tests that it touches: in this project, by its own imports."""

import subprocess
from pathlib import Path

import pytest

from tests.touched import ROOT, changed_files, imported_files, own_files, touched

PARTS = ["05_ddp", "08_decentralized", "12_hybrid", "13_tensorflow", "17_hang_clinic"]
PARTS += ["test_hub.py", "test_hostile_class.py", "test_grade.py", "test_elastic.py", "test_browser.py", "test_site.py"]


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("course/12_hybrid.py", ["12_hybrid"]),
        ("solutions/05_ddp/05_ddp.py", ["05_ddp"]),
        ("tests/answers/08_decentralized/mixing_matrix/wrong_new.py", []),  # there is no such file, so nobody reads it
        ("distlib/exercises/ddp/checks.py", ["05_ddp"]),
        ("distlib/exercises/ddp/checks.txt", ["05_ddp"]),
        ("distlib/exercises/decentralized/checks.txt", ["08_decentralized"]),
        ("distlib/training/mixing.py", ["08_decentralized"]),
        ("distlib/frameworks/tensorflow_graphs.py", ["13_tensorflow"]),
        ("distlib/clinic/patients/order_of_calls.txt", ["17_hang_clinic"]),
        ("distlib/judge/sandbox/contents.py", ["test_hub.py"]),
        ("distlib/launch/elastic.py", ["test_elastic.py"]),
        ("docker/hub/compose.yaml", ["test_hub.py"]),
        ("docker/Dockerfile", ["test_hub.py"]),
        ("distlib/draw/browser/player.js", ["12_hybrid"]),
        ("CITATION.cff", []),
    ],
)
def test_the_closest_come_first(file: str, first: list[str]) -> None:
    assert touched(PARTS, [ROOT / file])[: len(first) or None] == first


def test_a_name_is_followed_through_a_stub_to_its_module() -> None:
    lesson = ROOT / "course" / "08_decentralized.py"
    assert {ROOT / "distlib/training/gossip.py", ROOT / "distlib/training/mixing.py"} <= imported_files(lesson)
    assert ROOT / "distlib/training/zero/__init__.py" not in imported_files(lesson)
    assert own_files("08_decentralized")[0] == lesson


def test_what_has_changed_is_asked_of_git(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=100)

    git("init", "-q")
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "two.py").write_text("2")
    git("add", ".")
    git("commit", "-qm", "Two files")
    assert changed_files("HEAD~1", tmp_path) == [], "there is no commit before the first"
    (tmp_path / "one.py").write_text("3")
    assert changed_files("HEAD", tmp_path) == [tmp_path / "one.py"]
    git("commit", "-qam", "One of them")
    assert changed_files("HEAD~1", tmp_path) == [tmp_path / "one.py"]
