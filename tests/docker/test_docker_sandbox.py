"""The Docker sandbox, with a real Docker service: what tests/judge/test_sandbox.py tries with bubblewrap.

The containers show this machine's Python, so no image is built. The few that look at every file are left out here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from distlib.judge.remote.judge import Judges
from distlib.judge.sandbox.docker import EMPTY, Docker
from tests.judge.test_hostile_class import (
    QUICK,
    SHORT,
    graded_class,
    has_the_marks_that_it_deserves,
    have_all_marks,
)
from tests.judge.test_sandbox import (  # noqa: F401  (tests, which are run here once more, and what they use)
    LIMITS,
    test_a_million_empty_files_are_too_many,
    test_a_rank_cannot_untie_itself_from_its_parent,
    test_a_rank_does_not_see_the_files_of_another,
    test_a_rank_that_dies_takes_nobody_along,
    test_a_rank_that_is_ended_lets_go_of_its_wire,
    test_capabilities_are_gone_for_good,
    test_environment_and_streams_tell_nothing,
    test_every_rank_is_a_user_of_its_own,
    test_it_can_not_ask_what_is_in_memory,
    test_it_can_signal_nobody,
    test_it_cannot_change_the_library,
    test_it_cannot_start_another_process,
    test_it_has_no_rights,
    test_it_has_no_socket,
    test_it_has_threads_up_to_the_limit,
    test_it_sees_no_counters_of_the_machine,
    test_it_sees_no_other_process,
    test_it_sees_nothing_of_the_machine,
    test_no_network_device_is_up,
    test_open_files_are_limited,
    test_ranks_share_no_terminals,
    test_ranks_share_nothing_to_talk_through,
    test_the_disk_is_limited_and_ends_with_the_rank,
    test_the_library_inside_has_nothing_that_is_graded,
    test_the_parts_that_a_check_supplies_are_not_there,
    test_there_is_no_shared_memory_folder,
    two,
)
from tests.tools.hostile_submissions import ASSIGNMENT, read_hostile
from tests.tools.sandboxed_ranks import Ranks
from tests.tools.short_course import FEWER_CASES, short_course

HOSTILE = {"forks_400_processes", "talks_through_files"}

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """A sandbox in a container. The tests above take this one."""
    opened = Ranks(Docker(image=EMPTY), LIMITS)
    yield opened
    opened.close()


def container_of(client: int) -> str:
    """The name of the container that a process of `docker run` stands for."""
    words = psutil.Process(client).cmdline()
    return words[words.index("--name") + 1]


def is_there(container: str) -> bool:
    command = ["docker", "container", "inspect", container]
    return subprocess.run(command, capture_output=True, timeout=100).returncode == 0


def test_the_container_ends_with_the_sandbox() -> None:
    ranks = Ranks(Docker(image=EMPTY), LIMITS)
    container = container_of(ranks.confined.pid)
    assert ranks.start(0).run("told = 1") == ("done", 1)
    assert is_there(container)
    ranks.close()
    assert not is_there(container)


def test_the_container_ends_with_a_judge_that_is_killed(root: Path) -> None:
    program = """
from distlib.judge.sandbox.docker import EMPTY, Docker
from tests.tools.sandboxed_ranks import Ranks
ranks = Ranks(Docker(image=EMPTY))
rank = ranks.start(0)
rank.run("told = 1")
print(ranks.confined.pid, flush=True)
rank.run("while True: pass")
"""
    judge = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root)
    assert judge.stdout is not None
    client = psutil.Process(int(judge.stdout.readline()))
    container = container_of(client.pid)
    assert is_there(container)
    judge.kill()
    judge.wait()
    judge.stdout.close()
    assert psutil.wait_procs([client], timeout=100)[1] == []
    assert not is_there(container)


def test_a_class_gets_the_marks_that_it_deserves(root: Path, tmp_path: Path) -> None:
    """Some of the hostile class: what a container has to hold back by itself. With bubblewrap all are graded."""
    project = short_course(root, tmp_path / "short", ASSIGNMENT, SHORT, FEWER_CASES)
    submissions = [submission for submission in read_hostile() if submission.name in HOSTILE]
    assert len(submissions) == len(HOSTILE)
    with Judges(Docker(image=EMPTY), QUICK) as open_judge:
        classroom, run = graded_class(project, tmp_path / "class", submissions, open_judge)
    have_all_marks(classroom, run)
    for submission in submissions:
        has_the_marks_that_it_deserves(classroom, run, submission)
