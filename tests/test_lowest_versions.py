"""The lowest versions that pyproject.toml says, as constraints for pip: `make test-lowest`."""

import pytest

from tests.tools.lowest_versions import ROOT, lowest_versions


def project(*dependencies: str) -> str:
    listed = ", ".join(f'"{each}"' for each in dependencies)
    return f'[project]\ndependencies = [{listed}]\n[project.optional-dependencies]\njax = ["jax>=0.10,<0.11"]\n'


def test_each_package_at_its_lowest_version() -> None:
    assert lowest_versions(project("torch>=2.6", "jupyterlab>=4.2,<5")) == ["jupyterlab==4.2", "torch==2.6"]


def test_a_package_without_a_lowest_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one lowest version, as in name>=1.2, got torch<3"):
        lowest_versions(project("torch<3"))


def test_every_package_of_the_course_has_one() -> None:
    assert "torch==2.8" in lowest_versions((ROOT / "pyproject.toml").read_text())
