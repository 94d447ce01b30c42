"""What all tests share: markers for things that a machine may lack, and the project's folder."""

import functools
import gc
import importlib.util
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from distlib import World
from tests.shares import of_other_shares, parts_of, read_share
from tests.tools.chromium import running_chromium
from tests.touched import changed_files, every_part, touched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
LESSONS = "test_lessons.py"
LONGEST = ("test_answers_fast.py", LESSONS)  # together more than twenty minutes of one processor
SHOWN, LEAST_SHOWN = 30, 5.0  # files and seconds, in the table of where the time went
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSERS_ON_MACOS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)

# A busy machine may take its time over an example. CI tries the same examples each time; at home each run tries others.
settings.register_profile(
    "distlib", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("distlib")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The Chromium that browser tests start."""
    path = _browser()
    assert path is not None, "a test that uses browser_path is marked browser"
    return path


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator["Browser"]:
    """The Chromium of a file's tests. Not of the session's: as long as it runs, `asyncio.run` fails in this process."""
    with running_chromium(browser_path) as browser:
        yield browser


@pytest.fixture(scope="session")
def worlds() -> Iterator[Callable[[int], World]]:
    """Warm worlds by size: `worlds(4)` is the same World(4) in every test, and must be left usable by each."""
    made: dict[int, World] = {}

    def of_size(size: int) -> World:
        if size not in made:
            made[size] = World(size)
        return made[size]

    yield of_size
    for world in made.values():
        world.close()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """On tensors as small as those of tests, several threads of torch's only wait for each other."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def late_ranks() -> None:
    """What a world says of an error must not depend on which rank a busy machine has let run first."""
    from distlib.worlds.real import supervisor

    supervisor._LATE = 10.0


@pytest.fixture
def all_threads() -> Iterator[None]:
    """As many threads of torch's as a notebook has."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """See `tests.shares` and `tests.touched`."""
    parser.addoption("--share", metavar="K/N", help="of the slow tests, only the K-th of N shares")
    parser.addoption("--touched-since", metavar="COMMIT", help="with --share: also what has changed since this commit")


def pytest_configure() -> None:
    """A shell starts what is to run in the background with SIGINT ignored, and so would be every process of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the slow tests of other shares, if a share is asked for.

    Files with slow tests come first, the longest before all, so that no worker is left with one at the end.

    A test whose marker names something that this machine lacks is skipped, with the reason.
    """
    if share := config.getoption("--share"):
        is_worker = hasattr(config, "workerinput")
        found = config.workerinput["closest"] if is_worker else _closest_parts(config.getoption("--touched-since"))
        slow = parts_of(items)
        closest = [part for part in found if part in slow]
        others = set(of_other_shares(items, *read_share(share), closest))
        config.hook.pytest_deselected(items=[item for item in items if item in others])
        items[:] = [item for item in items if item not in others]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (places.get(item.path.name, len(LONGEST)), item.path not in slow))  # else as they were
    for item in items:
        for name, missing in MISSING.items():
            for marker in item.iter_markers(name):
                reason = missing(*marker.args, **marker.kwargs)
                if reason:
                    item.add_marker(pytest.mark.skip(reason=reason))


@functools.cache
def _closest_parts(since: str | None) -> list[str]:
    """What has changed since a commit touches these, the closest first."""
    return touched(every_part(), changed_files(since)) if since else []


@pytest.hookimpl(optionalhook=True)  # a run without xdist knows no such hook
def pytest_configure_node(node: Any) -> None:
    """A worker of xdist is told what has changed: to find that takes seconds, and each worker would do it again."""
    node.workerinput["closest"] = _closest_parts(node.config.getoption("--touched-since"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is made here stays to the end. The garbage collector would look through it, for half a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class _FilesAndLessons(LoadFileScheduling):
    """A worker takes a file at a time, whose tests share fixtures. Lessons share nothing: there it takes one test."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file.endswith(LESSONS) else file


@pytest.hookimpl(optionalhook=True)  # a run without xdist knows no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """For `--dist loadfile`, which `make test` asks for."""
    return _FilesAndLessons(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where the time went: the files that took longest, each with all its tests, their fixtures included."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    longest = [(file, spent) for file, spent in seconds.most_common(SHOWN) if spent >= LEAST_SHOWN]
    if longest:
        terminalreporter.section(f"seconds by file; {sum(seconds.values()):.0f} in all")
        for file, spent in longest:
            terminalreporter.write_line(f"{spent:7.0f}  {file}")


@functools.cache
def _missing_gpus(count: int = 1) -> str | None:
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return None if found >= count else f"needs {count} GPU(s); this machine has {found}"


@functools.cache
def _missing_browser() -> str | None:
    if importlib.util.find_spec("playwright") is None:
        return "needs playwright (make env)"
    return None if _browser() else "needs Chromium"


@functools.cache
def _missing_docker() -> str | None:
    if shutil.which("docker") is None:
        return "needs docker"
    done = subprocess.run(["docker", "info"], capture_output=True, timeout=100)
    return "needs a running Docker daemon" if done.returncode else None


@functools.cache
def _missing_slurm() -> str | None:
    return None if shutil.which("sbatch") else "needs Slurm (sbatch)"


@functools.cache
def _browser() -> str | None:
    found = (shutil.which(name) for name in (*BROWSERS, *BROWSERS_ON_MACOS))
    return next((path for path in found if path), None)


MISSING: dict[str, Callable[..., str | None]] = {
    "gpu": _missing_gpus,
    "browser": _missing_browser,
    "docker": _missing_docker,
    "slurm": _missing_slurm,
}
