"""What surrounds an open project: its forms and workflows can be read, and say what the project's own files say."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

FORMS = sorted((Path(__file__).parents[1] / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
ELEMENTS = {"markdown", "input", "textarea", "dropdown", "checkboxes"}  # of GitHub's issue forms


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def version_of(root: Path) -> str:
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def test_one_version_everywhere(root: Path) -> None:
    newest = re.search(r"^## (\S+), (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    citation = read_yaml(root / "CITATION.cff")
    assert newest and newest[1] == version_of(root) == citation["version"]
    assert newest[2] == str(citation.get("date-released", "not yet released"))


def test_a_citation_has_what_the_format_demands(root: Path) -> None:
    citation = read_yaml(root / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # of version 1.2.0's schema
    assert all({"name"} <= set(author) for author in citation["authors"])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_can_be_filled_in(path: Path) -> None:
    form = read_yaml(path)
    assert form["name"] and form["description"]
    assert {element["type"] for element in form["body"]} <= ELEMENTS
    asked = [element for element in form["body"] if element["type"] != "markdown"]
    assert len({element["id"] for element in asked}) == len(asked)
    assert all(element["attributes"]["label"] for element in asked)
    assert any(element.get("validations", {}).get("required") for element in asked)


def test_the_workflow_runs_every_slow_test_by_the_projects_own_script(root: Path) -> None:
    jobs = read_yaml(root / ".github" / "workflows" / "ci.yml")["jobs"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert re.search(r"\.ci/run$", *commands["touched"])
    shares = re.search(r'\.ci/run test-slow SHARES=(\d+) "SHARE=\$SHARE"$', *commands["share"])
    assert shares and jobs["share"]["strategy"]["matrix"]["share"] == list(range(1, int(shares[1]) + 1))


def test_the_newest_and_the_lowest_versions_are_tried_each_week(root: Path) -> None:
    workflow = read_yaml(root / ".github" / "workflows" / "versions.yml")
    (schedule,) = workflow[True]["schedule"]  # "on" is a yes in YAML
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule["cron"])
    job = workflow["jobs"]["tests"]
    targets = re.findall(r"^test-(newest|lowest):.*##", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert job["strategy"]["matrix"]["versions"] == targets == ["newest", "lowest"]
    assert [step["run"].split(" .ci/run ")[1:] for step in job["steps"] if "run" in step] == [['"test-$VERSIONS"']]


def test_hooks_call_what_make_check_calls(root: Path) -> None:
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (root / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert recipe
    called = {re.split(r" --| \.", command)[0] for command in re.findall(r'"([^"$]+)"', recipe[1])}
    (repository,) = read_yaml(root / ".pre-commit-config.yaml")["repos"]
    hooks = {re.split(r" --", hook["entry"].removeprefix(".venv/bin/"))[0] for hook in repository["hooks"]}
    assert hooks == called


def test_the_site_is_published_as_make_builds_it(root: Path) -> None:
    workflow = read_yaml(root / ".github" / "workflows" / "site.yml")
    steps = workflow["jobs"]["build"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make site ARGS=run"]
    (kept,) = [step["with"]["path"] for step in steps if step.get("uses", "").startswith("actions/cache@")]
    assert f"/{kept}/" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert steps[-1]["with"]["path"] == "build/site"
    assert workflow["jobs"]["publish"]["needs"] == "build"
