"""A class on a server, from the first password to the feedback: as students and instructor do it, over HTTP.

One class lives through an exercise in the fixture `exercise`; each test looks at a part of it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from distlib.judge.sandbox.unconfined import Unconfined
from tests.answer_files import read_answers
from tests.tools.hub import Hub, Member, compose_command

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]

NAME, FUNCTION = "01_messages", "shift"
NOTEBOOK = f"exercises/{NAME}/{NAME}.ipynb"
FORGED = "2000-01-01 00:00:00.000000 UTC"
ANSWERS = {"ada": "right_exchange", "bob": "wrong_not_periodic"}


@pytest.fixture(scope="module")
def hub(hub_images: str, root: Path) -> Iterator[Hub]:
    """The hub of a new class."""
    compose = compose_command()
    if compose is None:
        pytest.skip("needs Docker Compose")
    made = Hub(root, compose, hub_images, ["turing"])
    try:
        made.up()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def people(hub: Hub) -> dict[str, Member]:
    """Two students and the instructor, with JupyterLab open."""
    passwords = hub.admit("ada", "bob", "turing")
    return signed_in(hub, passwords)


def signed_in(hub: Hub, passwords: dict[str, str]) -> dict[str, Member]:
    people = {name: Member(hub, name) for name in passwords}
    assert [member.sign_in(passwords[name]) for name, member in people.items()] == [200] * len(people)
    with ThreadPoolExecutor() as pool:
        assert all("JupyterLab" in page for page in pool.map(Member.open_lab, people.values()))
    return people


@pytest.fixture(scope="module")
def exercise(hub: Hub, people: dict[str, Member]) -> SimpleNamespace:
    """What came of an exercise: released, fetched, answered, handed in, collected, graded, fed back."""
    hub.inside("turing", "nbgrader", "generate_assignment", NAME, "--force")
    hub.inside("turing", "nbgrader", "release_assignment", NAME)
    for student, answer in ANSWERS.items():
        fetch(people[student])
        write_answer(people[student], answer)
    checked = hub.inside("ada", "sh", "-c", f"distlib check {NAME} || true")  # the other functions are not written
    people["ada"].assignments("submit", assignment_id=NAME)
    receipt = hub.inside("bob", "distlib", "hand-in", NAME)
    cheat(hub)
    collected = hub.inside("turing", "sh", "-c", f"nbgrader collect {NAME} --update 2>&1")
    graded = hub.inside("turing", "sh", "-c", f"distlib grade {NAME} 2>&1")
    hub.inside("turing", "nbgrader", "generate_feedback", NAME)
    hub.inside("turing", "nbgrader", "release_feedback", NAME)
    pages = {student: feedback(people[student]) for student in ANSWERS}
    marks = hub.inside("turing", "cat", f"classroom/graded/{NAME}/marks.csv")
    return SimpleNamespace(
        checked=checked, receipt=receipt, collected=collected, graded=graded, marks=marks, pages=pages
    )


def fetch(student: Member) -> None:
    """Throw the copy away that a student has from the beginning, and get the exercise that is released."""
    student.call("DELETE", f"api/contents/{NOTEBOOK}")
    student.call("DELETE", f"api/contents/exercises/{NAME}")
    (released,) = student.assignments()
    assert (released["assignment_id"], released["status"]) == (NAME, "released")
    (fetched,) = student.assignments("fetch", assignment_id=NAME, repeat="0")
    assert (fetched["status"], fetched["path"]) == ("fetched", f"exercises/{NAME}")


def write_answer(student: Member, name: str) -> None:
    """Put one of the answers in tests/answers into the student's notebook, and save it."""
    (answer,) = [a for a in read_answers(NAME) if (a.function, a.name) == (FUNCTION, name)]
    notebook = student.call("GET", f"api/contents/{NOTEBOOK}")["content"]
    (cell,) = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == FUNCTION]
    cell["source"] = answer.text
    student.call("PUT", f"api/contents/{NOTEBOOK}", json={"type": "notebook", "format": "json", "content": notebook})


def cheat(hub: Hub) -> None:
    """What bob tries: to hand in the solutions, by a link, and something in the name of ada."""
    name = f"+{NAME}+{FORGED}+x"
    tried = f"""
    cd /exchange/{hub.name}/inbound
    ln -s /course/solutions/{NAME} 'bob{name}'
    mkdir 'ada{name}' && ln -s /course/classroom/gradebook.db 'ada{name}/{NAME}.ipynb'
    """
    hub.inside("bob", "sh", "-ec", tried)


def feedback(student: Member) -> str:
    """The page that a student fetches and opens."""
    student.assignments("fetch_feedback", assignment_id=NAME)
    (handed_in,) = [entry for entry in student.assignments() if entry["status"] == "submitted"]
    folder = Path(handed_in["submissions"][-1]["local_feedback_path"])
    return student.call("GET", f"api/contents/{folder / f'{NAME}.html'}")["content"]


# ── who may come in ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_signs_in_without_the_right_password(hub: Hub, people: dict[str, Member]) -> None:
    assert Member(hub, "ada").sign_in("") == Member(hub, "ada").sign_in("ada") == 403
    assert Member(hub, "mallory").sign_in("") == 403
    assert Member(hub, "turing").status_of("/hub/api/users") == 403


def test_each_has_a_container_of_their_own(hub: Hub, people: dict[str, Member]) -> None:
    assert hub.containers() == [f"{hub.name}.{name}" for name in ("ada", "bob", "turing")]


def test_nobody_comes_into_the_server_of_another(hub: Hub, people: dict[str, Member]) -> None:
    for visitor, host in (("bob", "ada"), ("ada", "turing"), ("turing", "ada")):
        assert people[visitor].status_of(f"/user/{host}/lab") == 403
        assert people[visitor].status_of(f"/user/{host}/api/contents") == 403


def test_nor_past_the_hub(hub: Hub, people: dict[str, Member]) -> None:
    program = f"""
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://{hub.name}.ada:8888/user/ada/api/contents", timeout=60)
except urllib.error.HTTPError as error:
    print(error.code)
except urllib.error.URLError:  # each has a network of his own: there the name is not known
    print("no way")
"""
    assert hub.inside("bob", "python", "-c", program) == hub.inside("turing", "python", "-c", program) == "no way"


def test_an_instructor_sees_who_is_there(people: dict[str, Member]) -> None:
    assert people["turing"].status_of("/hub/admin") == people["turing"].status_of("/hub/api/users") == 200
    assert people["ada"].status_of("/hub/admin") == people["ada"].status_of("/hub/api/users") == 403


# ── what a student's container does not hold ─────────────────────────────────────────────────────────────────────────


def test_a_student_finds_nothing_of_others(hub: Hub, exercise: SimpleNamespace) -> None:
    names = f"'(' -name '*{NAME}*' -o -name gradebook.db ')'"
    command = f"find / -path /proc -prune -o -path /opt/venv -prune -o {names} -print 2>/dev/null || true"
    found = hub.inside("bob", "sh", "-c", command).splitlines()
    his = {f"/course/exercises/{NAME}", f"/course/work/{NOTEBOOK}", f"/exchange/{hub.name}/outbound/{NAME}"}
    assert his <= set(found) and any(path.startswith(f"/exchange/{hub.name}/inbound/bob+{NAME}") for path in found)
    assert not [path for path in found if "solutions/" in path or "classroom" in path or "gradebook" in path]
    assert {path.split("+")[2] for path in found if "/ada+" in path} == {FORGED}
    assert hub.fails("bob", "ls", f"/exchange/{hub.name}/feedback")


def test_a_student_changes_nothing_of_others(hub: Hub, people: dict[str, Member]) -> None:
    for part in ("outbound", "feedback", "inbound/.."):
        assert hub.fails("bob", "touch", f"/exchange/{hub.name}/{part}/file")


def test_only_the_hub_has_dockers_socket(hub: Hub, people: dict[str, Member]) -> None:
    for name in people:
        assert hub.fails(name, "sh", "-c", "ls /var/run/docker.sock /run/docker.sock")
        assert hub.inside(name, "sh", "-c", "grep CapEff /proc/self/status").split()[1] == "0" * 16


# ── from the exercise to the feedback ────────────────────────────────────────────────────────────────────────────────


def test_a_student_can_check_an_answer(exercise: SimpleNamespace) -> None:
    assert re.search(rf"{FUNCTION}.*✓", exercise.checked), exercise.checked


def test_handing_in_goes_to_the_exchange(hub: Hub, exercise: SimpleNamespace) -> None:
    assert exercise.receipt.startswith(f"{NAME} is handed in, to the exchange of the course {hub.name}.")


def test_what_leads_elsewhere_is_not_collected(exercise: SimpleNamespace) -> None:
    refused = [line for line in exercise.collected.splitlines() if "Not collected" in line]
    assert len(refused) == 2 and all("of bob" in line for line in refused), exercise.collected


def test_marks_are_those_that_the_answers_deserve(exercise: SimpleNamespace) -> None:
    rows = {row["student"]: row for row in csv.DictReader(exercise.marks.splitlines())}
    assert rows.keys() == ANSWERS.keys()
    assert float(rows["ada"][f"{FUNCTION}_visible"]) > 0 and float(rows["ada"][f"{FUNCTION}_hidden"]) > 0
    assert float(rows["bob"][f"{FUNCTION}_visible"]) == float(rows["bob"][f"{FUNCTION}_hidden"]) == 0


def test_answers_run_in_a_sandbox(exercise: SimpleNamespace) -> None:
    assert f"2 of {len(ANSWERS)}, done" in exercise.graded and Unconfined.warning not in exercise.graded


def test_each_gets_the_feedback_to_their_own_work(exercise: SimpleNamespace) -> None:
    shown = {
        name: re.search(rf">([✓◐✗○])</span>(<a [^>]*>)?<code>{FUNCTION}<", page)
        for name, page in exercise.pages.items()
    }
    assert shown["ada"] and shown["bob"], exercise.pages
    assert (shown["ada"][1], shown["bob"][1]) == ("✓", "✗")


# ── the next day ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_still_there_after_a_new_start(hub: Hub, exercise: SimpleNamespace) -> None:
    passwords = hub.admit("ada", "turing")
    hub.down()
    assert hub.containers() == []
    assert hub.name + ".ada.work" in hub.volumes()
    hub.up()
    people = signed_in(hub, passwords)
    assert "submitted" in {entry["status"] for entry in people["ada"].assignments()}
    assert feedback(people["ada"]) == exercise.pages["ada"]
    assert hub.inside("turing", "cat", f"classroom/graded/{NAME}/marks.csv") == exercise.marks


def test_who_is_taken_off_the_list_gets_no_container(hub: Hub, people: dict[str, Member]) -> None:
    """Neither with the password, nor with the cookies of a browser that has been signed in since the day before."""
    password = hub.admit("bob")["bob"]
    hub.compose("exec", "-T", "hub", "admit", "--remove", "bob")
    assert Member(hub, "bob").sign_in(password) == 403
    assert people["bob"].status_of("/hub/home") == 200
    assert people["bob"].status_of("/hub/spawn/bob") == 403
    assert f"{hub.name}.bob" not in hub.containers()
