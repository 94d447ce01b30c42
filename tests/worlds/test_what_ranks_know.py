"""What the notebook knows, ranks know: its modules, environment variables, settings, and the modes it calls run in."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import logging
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest
import torch

from distlib import Communicator, RankError, SimulatedWorld, World

MakeWorld = Callable[[int], World | SimulatedWorld]


@pytest.fixture(params=["real", "greenlets", "threads"])
def make_world(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> MakeWorld:
    if request.param == "real":
        return worlds
    return lambda size: SimulatedWorld(size, contexts=request.param)


# ── the user's own modules ───────────────────────────────────────────────────────────────────────────────────────────


class Helpers:
    """Modules beside the notebook, which can be edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edits = 0

    def write(self, name: str, text: str) -> types.ModuleType | None:
        """Write the file, as an editor does that takes its time. Returns the module if it has been imported."""
        path, self.edits = self.folder / f"{name}.py", self.edits + 1
        path.write_text(text)
        os.utime(path, (2e9 + 10 * self.edits,) * 2)  # compiled files know seconds only
        importlib.invalidate_caches()
        return sys.modules.get(name)

    def imported(self, name: str, text: str) -> types.ModuleType:
        self.write(name, text)
        return importlib.import_module(name)


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Helpers]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Helpers(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_that_was_edited_and_reloaded(worlds, helpers: Helpers) -> None:
    first = helpers.imported("edited_first", "RATE = 1\ndef answer():\n    return 'old', RATE\n")
    user = helpers.imported("edited_user", "import edited_first\ndef ask():\n    return edited_first.answer()\n")

    def ask(comm: Communicator) -> tuple[tuple[str, int], tuple[str, int]]:
        return first.answer(), user.ask()

    def import_inside(comm: Communicator) -> tuple[str, int]:
        import edited_first

        return edited_first.answer()

    assert worlds(2).run(ask) == [(("old", 1), ("old", 1))] * 2
    helpers.write("edited_first", "RATE = 2\ndef answer():\n    return 'new', RATE\n")
    assert worlds(2).run(ask) == [(("old", 1), ("old", 1))] * 2  # as the notebook itself
    assert worlds(3).run(ask) == [(("old", 1), ("old", 1))] * 3  # also where the new text is there to be imported
    importlib.reload(first)
    assert worlds(2).run(ask) == [(("new", 2), ("new", 2))] * 2
    assert worlds(2).run(import_inside) == [("new", 2)] * 2


def test_what_is_set_in_a_module(worlds, helpers: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the first run: numbers, functions, attributes of classes; objects when they are replaced later."""
    text = "RATE = 1\nSIZES = {'a': 1}\nDATA = object()\ndef f():\n    return 1\n"
    text += "class Net:\n    width = 1\n    def g(self):\n        return 1\n"
    module = helpers.imported("set_in", text)
    monkeypatch.setattr(module, "RATE", 5)
    module.SIZES["a"] = 5
    replacement = types.FunctionType((lambda *_: 5).__code__, {"__name__": "__main__"}, "replacement")
    module.f = replacement
    module.Net.width, module.Net.g = 5, replacement

    def see(comm: Communicator) -> list[object]:
        return [module.RATE, module.SIZES["a"], module.f(), module.Net.width, module.Net().g(), str(module.DATA)[:7]]

    assert worlds(2).run(see) == [[5, 5, 5, 5, 5, "<object"]] * 2
    module.SIZES["a"], module.DATA = 6, numpy.arange(100_000)
    assert worlds(2).run(see) == [[5, 6, 5, 5, 5, "[    0 "]] * 2


def test_what_a_rank_has_set_in_a_module_stays_its_own(worlds, helpers: Helpers) -> None:
    module = helpers.imported("counting", "count = 0\n")

    def count(comm: Communicator) -> int:
        module.count += 1
        return int(module.count)

    assert [worlds(2).run(count) for _ in range(3)] == [[1, 1], [2, 2], [3, 3]] and module.count == 0
    module.count = 10
    assert worlds(2).run(count) == [11, 11]


def test_ranks_are_told_again_after_a_run_that_failed(worlds, helpers: Helpers) -> None:
    module = helpers.imported("failing", "def f():\n    return 1\n")
    assert worlds(2).run(lambda comm: module.f()) == [1, 1]
    helpers.write("failing", "import os\ndef f():\n    return 2\nif os.environ.get('FAIL_ONCE'):\n    1 / 0\n")
    importlib.reload(module)
    with changed_variables(FAIL_ONCE="1"), pytest.raises(RankError, match="failing.py, line 5: .*ZeroDivisionError"):
        worlds(2).run(lambda comm: module.f())
    assert worlds(2).run(lambda comm: module.f()) == [2, 2]


def test_a_module_that_was_edited_before_the_first_run(worlds, helpers: Helpers) -> None:
    """Ranks can import the new text only; they go on with the old functions, as the notebook does."""
    module = helpers.imported(
        "edited_early", "def f(x=1):\n    return x\nclass Net:\n    def g(self):\n        return 1\n"
    )
    helpers.write("edited_early", "def f(x=2):\n    return -x\nclass Net:\n    def g(self):\n        return 2\n")
    assert worlds(2).run(lambda comm: (module.f(), module.Net().g())) == [(1, 1)] * 2
    module = helpers.imported("edited_away", "def f():\n    return 1\n")
    helpers.write("edited_away", "def g():\n    return 2\n")
    with pytest.warns(UserWarning, match="edited_away.py was edited after .* has no f .*reload.edited_away.") as told:
        worlds(2).run(lambda comm: importlib.import_module(module.__name__) and None)
    assert told[0].filename == __file__


def test_what_can_not_be_sent_is_said_once(worlds, helpers: Helpers) -> None:
    module = helpers.imported("with_a_lock", "lock = None\ndef f():\n    return 1\n")
    assert worlds(2).run(lambda comm: module.f()) == [1, 1]
    module.lock = threading.Lock()
    with pytest.warns(UserWarning, match="with_a_lock.lock, a lock, can't be sent to the ranks"):
        assert worlds(2).run(lambda comm: module.f()) == [1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert worlds(2).run(lambda comm: module.f()) == [1, 1]


def test_modules_of_python_and_of_packages_are_left_alone(worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("colorsys"), "ONE_THIRD", 5)
    assert worlds(1).run(lambda comm: __import__("colorsys").ONE_THIRD < 1) == [True]


# ── environment variables ────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def changed_variables(**changes: str | None) -> Iterator[None]:
    before = dict(os.environ)
    try:
        for name, value in changes.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_environment_variables(worlds) -> None:
    """Those that are set, changed, deleted; a rank's own ones stay; a new world has them, too."""

    def see(comm: Communicator) -> list[str | None]:
        os.environ["SET_BY_RANK"] = str(comm.rank)
        return [os.environ.get(name) for name in ("NEW", "HOME", "OMP_NUM_THREADS")]

    def own(comm: Communicator) -> str | None:
        return os.environ.get("SET_BY_RANK")

    home = os.environ["HOME"]
    assert worlds(2).run(see) == [[None, home, "1"]] * 2
    with changed_variables(NEW="a", HOME=None, OMP_NUM_THREADS="7"):
        assert worlds(2).run(see) == [["a", None, "1"]] * 2
        with World(1) as new, changed_variables(NEW="b"):
            assert new.run(see) == [["b", None, "1"]]
    assert worlds(2).run(see) == [[None, home, "1"]] * 2
    assert worlds(2).run(own) == ["0", "1"]


# ── modes and settings ───────────────────────────────────────────────────────────────────────────────────────────────


def modes(comm: Communicator) -> tuple[object, ...]:
    comm.barrier()
    tensor = torch.ones(2, requires_grad=True)
    seen = (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), (tensor * 2).requires_grad, tensor.dtype,
        tensor.device.type, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), VARIABLE.get(),
        numpy.geterr()["divide"],
    )  # fmt: skip
    return tuple(map(str, seen))


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def default_device(device: str) -> Iterator[None]:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "inside",
    [
        contextlib.nullcontext,
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.device("meta"),
        lambda: default_device("meta"),
        lambda: default_dtype(torch.float64),
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: numpy.errstate(divide="raise"),
    ],
    ids="nothing no_grad inference device default_device dtype autocast errstate".split(),
)
def test_a_run_inside_a_context_is_inside_it_on_the_ranks(make_world: MakeWorld, inside) -> None:
    world = make_world(2)
    with inside():
        here = modes(NoRanks())
        assert world.run(modes) == [here] * 2
    assert world.run(modes) == [modes(NoRanks())] * 2


class NoRanks:
    """A communicator for the notebook's own process."""

    def barrier(self) -> None: ...


def test_modes_of_a_rank_end_with_its_run_and_are_no_other_ranks(make_world: MakeWorld) -> None:
    def leave_them(comm: Communicator) -> tuple[object, ...]:
        seen = modes(comm)
        if comm.rank == 1:
            torch.set_grad_enabled(False)
        with torch.device("meta") if comm.rank == 1 else torch.inference_mode() if comm.rank == 2 else torch.no_grad():
            for _ in range(2):
                comm.barrier()
                comm.exchange(
                    torch.ones(1, device="cpu"), (comm.rank + 1) % 3, torch.ones(1, device="cpu"), (comm.rank - 1) % 3
                )
                inside = torch.ones(1).device.type, torch.is_inference_mode_enabled(), torch.is_grad_enabled()
                assert inside == [("cpu", False, False), ("meta", False, False), ("cpu", True, False)][comm.rank]
        assert torch.is_grad_enabled() == (comm.rank != 1)
        return seen

    world, here = make_world(3), modes(NoRanks())
    assert world.run(leave_them) == world.run(leave_them) == [here] * 3
    assert modes(NoRanks()) == here


def test_variables_of_the_context_reach_simulated_ranks() -> None:
    """Those of a process can't be sent to another one, and that is said where a function uses one."""
    token = VARIABLE.set("set in the notebook")
    try:
        for contexts in ("greenlets", "threads"):
            assert [seen[7] for seen in SimulatedWorld(2, contexts=contexts).run(modes)] == ["set in the notebook"] * 2
    finally:
        VARIABLE.reset(token)


@pytest.mark.usefixtures("all_threads")
def test_settings(worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    def see(comm: Communicator) -> list[object]:
        logger = logging.getLogger("distlib.test")
        return [
            torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(), str(torch.tensor(1 / 3)),
            str(numpy.array([1 / 3])), logger.getEffectiveLevel(), len(logging.root.handlers),
            [f[0] for f in warnings.filters if f[2] is KeyboardInterrupt], torch.get_float32_matmul_precision(),
        ]  # fmt: skip

    before = worlds(1).run(see)[0]
    threads = torch.get_num_threads()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("told: %(message)s"))
    logging.getLogger("distlib.test").setLevel(logging.DEBUG)
    logging.root.addHandler(handler)
    torch.use_deterministic_algorithms(True)
    torch.set_printoptions(precision=2)
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(), numpy.printoptions(precision=3):
            warnings.filters.insert(0, ("error", None, KeyboardInterrupt, None, 0))
            told = worlds(1).run(see)[0]
    finally:
        logging.getLogger("distlib.test").setLevel(logging.NOTSET)
        logging.root.removeHandler(handler)
        torch.use_deterministic_algorithms(False)
        torch.set_printoptions(profile="default")
        torch.set_num_threads(threads)
    assert told == [True, 1, "tensor(0.33)", "[0.333]", logging.DEBUG, before[5] + 1, ["error"], before[7]]
    assert worlds(1).run(see)[0] == before
    assert before[0] is False


def test_a_warning_is_filtered_whose_module_is_not_imported_before_it_is_needed() -> None:
    """Every kernel has a filter for a warning of IPython's, which takes each rank a second to import."""

    def see(comm: Communicator) -> list[object]:
        before = "PIL.Image" in sys.modules
        image = importlib.import_module("PIL.Image")
        kinds = image.DecompressionBombWarning, type("Larger", (image.DecompressionBombWarning,), {}), UserWarning
        return [before, *(raises(kind) for kind in kinds)]

    def raises(kind: type[Warning]) -> bool:
        try:
            with warnings.catch_warnings():
                warnings.warn("too large", kind, stacklevel=1)
        except Warning:
            return True
        return False

    with World(1) as world, warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", importlib.import_module("PIL.Image").DecompressionBombWarning)
        assert world.run(see) == [[False, True, True, False]]


def test_what_is_logged_is_shown(worlds, capsys) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("told: %(message)s"))
    logging.root.addHandler(handler)
    try:
        worlds(2).run(lambda comm: logging.getLogger("student").error("rank %d", comm.rank))
    finally:
        logging.root.removeHandler(handler)
    assert sorted(capsys.readouterr().err.splitlines()) == [f"[rank {rank}] told: rank {rank}" for rank in range(2)]
