"""The shape of the project: what imports what, and what a lesson, an exercise and a module must have.

These tests back the checklists in contributing/.
"""

import ast
import importlib.metadata
import inspect
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from distlib.classroom.student_copies.copy_paths import lesson_for
from distlib.cli.missing_package import BROUGHT_BY
from tests.answer_changes import CHANGES
from tests.answer_files import ANSWERS, read_answers
from tests.tools.source_trees import module_of, tree_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "distlib"
LESSONS = sorted((ROOT / "course").glob("[0-9]*.py"))
ASSIGNMENTS = sorted((ROOT / "solutions").glob("*/*.py"))
GUIDES = sorted((ROOT / "contributing").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "solutions" / "README.md", *GUIDES]
WITH_LINKS = [
    *DOCUMENTS,
    *(ROOT / name for name in ("docker/README.md", "solutions/SYLLABUS.md", "ANYWHERE.md", "CHANGELOG.md")),
]
WITH_LINKS += sorted((ROOT / ".github").glob("*.md"))

# The floor of each folder of the package, and of the modules next to them. Imports only point down or stay on
# their floor.
FLOORS = {
    "arguments": 0,
    "communicator": 0,
    "communicator_names": 0,
    "course_root": 0,
    "folded_answers": 0,
    "lazy_names": 0,
    "installed_packages": 0,
    "living_line": 0,
    "network": 0,
    "own_folders": 0,
    "partition": 0,
    "ordinary_file": 0,
    "printable": 0,
    "python_text": 0,
    "process_limits": 0,
    "shadowing": 0,
    "tensor_kinds": 0,
    "reading_process": 0,
    "trace": 0,
    "whole_file": 0,
    "collectives": 1,
    "torch_backend": 2,
    "worlds": 2,
    "frameworks": 3,
    "gpus": 3,
    "training": 3,
    "capstone": 4,
    "checks": 4,
    "clinic": 4,
    "draw": 4,
    "exam": 5,
    "exercises": 5,
    "games": 5,
    "judge": 5,
    "trainers": 5,
    "classroom": 6,
    "authoring": 7,
    "cli": 7,
    "launch": 3,
}
TOP = 2  # these floors make what `from distlib import …` offers: their modules name each other

# A method of training never imports another one, so that each can be read alone. What they may share:
SHARED_IN_TRAINING = {
    ("ddp", "backward_pass"),
    ("ddp", "buckets"),
    ("ddp", "one_rank_only"),
    ("ddp", "replicas"),
    ("ddp", "same_parameters"),
    ("gossip", "mixing"),
    ("mesh", "pipeline"),
    ("mesh", "schedules"),
    ("mesh", "tensor_parallel"),
    ("mesh", "zero"),
    ("parameter_server", "datasets"),  # of its trainings of digits
    ("parameter_server", "shards"),
    ("pipeline", "schedules"),
    ("strategy", "par_points"),
    ("strategy", "pipeline"),
    ("strategy", "schedules"),
    ("strategy", "zero"),
    ("tensor_parallel", "parts_of_whole"),
    ("zero", "backward_pass"),
    ("zero", "one_rank_only"),
    ("zero", "par_points"),
    ("zero", "parts_of_whole"),
    ("zero", "replicas"),
    ("zero", "same_parameters"),
}

# What `import distlib` must not import.
HEAVY = ("matplotlib", "nbgrader", "jupytext", "ipywidgets", "anywidget")
FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "jax")

# Packages that only these parts of distlib may import.
OWNERS = {
    "matplotlib": {"draw"},
    "ipywidgets": {"draw"},
    "anywidget": {"draw"},
    **dict.fromkeys(("jupytext", "sphinx", "docutils"), {"authoring"}),
    "nbgrader": {"authoring", "classroom"},
    "nbformat": {"authoring", "classroom", "judge"},
    **dict.fromkeys(FRAMEWORKS, {"frameworks", "exercises"}),
}

# Packages that pyproject.toml need not name: what others, which it does name, consist of.
PARTS = {
    "jupyterlab": {"jupyter_client", "jupyter_core", "jupyter_server", "tornado", "traitlets", "zmq"},
    "ipykernel": {"IPython"},
    "accelerate": {"safetensors"},
}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py")


def part_of(path: Path) -> str:
    """The name in FLOORS that a file of the package belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The full names of what a file imports, also inside functions: distlib.trace, distlib.World, torch.distributed."""
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def parts_imported(path: Path) -> Iterator[str]:
    """The parts of distlib that a file imports; "" is the package itself, as in `from distlib import World`."""
    for name in imported(path):
        words = name.split(".")
        if words[0] == "distlib":
            yield words[1] if len(words) > 1 and words[1] in FLOORS else ""


def import_error(importer: str, part: str) -> str | None:
    """What is wrong when a file of one part imports another part, None when nothing is."""
    floor, below = FLOORS[importer], TOP if part == "" else FLOORS[part]
    if importer == part:
        return None
    if part == "" and floor <= TOP:
        return f"{importer} (floor {floor}) imports distlib itself: import the module it needs"
    if below > floor:
        return f"{importer} (floor {floor}) imports {part} (floor {below}): imports only point down"
    if part in ("authoring", "cli"):
        return f"{importer} imports {part}: nothing does"
    return None


def training_error(importer: str, module: str) -> str | None:
    """What is wrong when one module of training imports another one, None when nothing is."""
    if importer == module or (importer, module) in SHARED_IN_TRAINING:
        return None
    return f"training/{importer} imports {module}: modules of training do not know each other"


# The package


def test_every_module_has_a_floor() -> None:
    assert {part_of(path) for path in MODULES} - set(FLOORS) == set(), "enter a new module in FLOORS"


def found_in(paths: Iterable[Path], look: Callable[[Path], Iterable[str | None]]) -> dict[str, list[str]]:
    """By module, what is found in it. One test for a thousand modules takes a tenth of the time of a thousand tests."""
    found = {str(path.relative_to(PACKAGE)): [each for each in look(path) if each] for path in paths}
    return {name: each for name, each in found.items() if each}


def test_imports_only_point_down() -> None:
    def errors(path: Path) -> list[str | None]:
        return [import_error(part_of(path), part) for part in parts_imported(path)]

    assert found_in(MODULES, errors) == {}


def test_modules_of_training_do_not_know_each_other() -> None:
    def errors(path: Path) -> list[str | None]:
        importer = path.relative_to(PACKAGE / "training").with_suffix("").parts[0]
        modules = [name.split(".")[2] for name in imported(path) if name.startswith("distlib.training.")]
        return [training_error(importer, module) for module in modules]

    assert found_in((PACKAGE / "training").rglob("*.py"), errors) == {}


def test_nothing_knows_an_exercise_but_itself() -> None:
    """What two exercises share is the engine."""

    def others(path: Path) -> list[str]:
        own = ".".join(path.relative_to(ROOT).parts[:3]) if part_of(path) == "exercises" else "none"
        known = [name for name in imported(path) if f"{name}.".startswith("distlib.exercises.")]
        return [name for name in known if not f"{name}.".startswith(f"{own}.")]

    assert found_in(MODULES, others) == {}


def modules_loaded_by(path: Path) -> set[str]:
    """The modules and packages of distlib that Python runs for what a file imports, but for the packages it is in."""
    own = module_of(path)
    found = set()
    for name in imported(path):
        while name.startswith("distlib."):
            if name in NAMES:
                found.add(name)
            name = name.rpartition(".")[0]
    return {name for name in found if name != own and not own.startswith(f"{name}.")}


NAMES = {module_of(path): path for path in MODULES}


def test_there_is_no_circle_of_imports() -> None:
    imports = {name: modules_loaded_by(path) for name, path in NAMES.items()}
    try:
        list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' ◄── '.join(error.args[1])}")


def test_the_rule_refuses_what_it_should() -> None:
    assert import_error("trace", "worlds") == "trace (floor 0) imports worlds (floor 2): imports only point down"
    assert import_error("collectives", "draw") is not None
    assert import_error("worlds", "") is not None
    assert import_error("draw", "cli") is not None
    assert import_error("collectives", "worlds") is not None
    assert import_error("checks", "judge") is not None
    assert import_error("checks", "worlds") is None
    assert import_error("worlds", "worlds") is None
    assert training_error("ddp", "zero") == "training/ddp imports zero: modules of training do not know each other"
    assert training_error("pipeline", "schedules") is None


def test_special_packages_are_imported_only_by_their_owners() -> None:
    def not_owned(path: Path) -> list[str]:
        packages = {name.split(".")[0] for name in imported(path)}
        return [package for package in packages & set(OWNERS) if part_of(path) not in OWNERS[package]]

    assert found_in(MODULES, not_owned) == {}


def test_every_package_that_is_imported_is_named_in_pyproject() -> None:
    """One that only comes with another is gone when that one does without it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {canonicalize_name(Requirement(each).name) for group in groups for each in group}
    no_package = {"distlib", "pip", *sys.stdlib_module_names}
    known = no_package.union(*(parts for whole, parts in PARTS.items() if whole in named))
    distributions = importlib.metadata.packages_distributions()

    def not_named(path: Path) -> list[str]:
        modules = {name.split(".")[0] for name in imported(path)} - known
        packages = {module: distributions.get(module, [module]) for module in modules}
        return [module for module, names in packages.items() if named.isdisjoint(map(canonicalize_name, names))]

    assert found_in(MODULES, not_named) == {}, "name it there, and its version in constraints.txt"


def test_commands_know_which_extra_brings_what_they_import() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra: {canonicalize_name(Requirement(each).name) for each in extras[extra]} for extra in BROUGHT_BY}
    distributions = importlib.metadata.packages_distributions()
    found: dict[str, set[str]] = {extra: set() for extra in BROUGHT_BY}
    for module in {name.split(".")[0] for path in MODULES for name in imported(path)}:
        names = [*distributions.get(module, [module]), *(whole for whole, parts in PARTS.items() if module in parts)]
        for extra in BROUGHT_BY:
            found[extra] |= {module} if named[extra].intersection(map(canonicalize_name, names)) else set()
    assert {extra: set(packages) for extra, packages in BROUGHT_BY.items()} == found


def test_import_distlib_is_light() -> None:
    names = HEAVY + FRAMEWORKS
    program = f"import sys, distlib; distlib.World; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_frameworks_are_imported_only_when_they_are_used() -> None:
    names = ("torch", *FRAMEWORKS)
    program = f"import sys, distlib.frameworks; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_a_command_starts_without_torch() -> None:
    program = "import sys, distlib.cli.lab, distlib.cli.launch; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "False\n", done.stdout + done.stderr


ADDS_ARGUMENTS = re.compile(r"add_[a-z_]+_arguments")  # of a command, which its name says; each has its help
REGISTERED = {"asks_about", "atexit.register", "collective"}  # what these decorate is called without its name


def is_registered(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator hands it to what calls it, so that nobody else needs to know it."""
    return not REGISTERED.isdisjoint(ast.unparse(each).partition("(")[0] for each in node.decorator_list)


def public_names_without_docstring(path: Path) -> list[str]:
    """The module itself and its public functions and classes, as far as they have no docstring and need one."""
    tree = tree_of(path)
    found = [] if ast.get_docstring(tree) else [f"{path.name} itself"]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            speaks_for_itself = ADDS_ARGUMENTS.fullmatch(node.name) or is_registered(node)
            found += [] if ast.get_docstring(node) or speaks_for_itself else [node.name]
    return found


def test_what_is_public_has_a_docstring() -> None:
    assert found_in([PACKAGE / "__init__.py", *MODULES], public_names_without_docstring) == {}


def test_a_docstring_says_more_than_three_words() -> None:
    """One that says less repeats a name: none is better. This holds for what is private, and for methods, too."""

    def short(path: Path) -> list[str]:
        kinds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        found = [ast.get_docstring(node) for node in ast.walk(tree_of(path)) if isinstance(node, kinds)]
        return [words for words in found if words is not None and len(words.split()) < 4]

    assert found_in([PACKAGE / "__init__.py", *MODULES], short) == {}


# What only tests name, and why it is there all the same.
NAMED_BY_TESTS_ONLY = {
    "current_device": "torch asks the module of a device for it",
    "recursive_halving_reduce_scatter": "`traffic` and `duration` have every algorithm of `collectives`",
    "simulated_only": "`make answers ARGS=--fast`, a program among the tests, needs it",
    "sum_router_gradients": "a loop of one's own needs it after the backward pass: the text of its module says so",
    "table_of": "the site's reference offers it, for reports of one's own",
}


def names_in(statement: ast.stmt) -> Iterator[str]:
    """What the code of a statement names, and the words of its strings, by which a table or `getattr` may find a name.

    What it defines is not among them, nor what only its docstrings and comments name.
    """
    texts = [node.value for node in ast.walk(statement) if isinstance(node, ast.Expr)]
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
            yield from re.findall(r"\w+", node.value)


@cache
def names_by_statement(path: Path) -> dict[ast.stmt, set[str]]:
    """What each statement of a module names."""
    return {node: set(names_in(node)) for node in tree_of(path).body}


def only_offers(path: Path, node: ast.stmt) -> bool:
    """Whether a statement does nothing but offer names, under which a module or a package is imported from."""
    if isinstance(node, ast.Assign):
        return not {"__all__", "_HOMES"}.isdisjoint(getattr(target, "id", "") for target in node.targets)
    is_for_types = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    return path.name == "__init__.py" and (is_for_types or isinstance(node, ast.ImportFrom))


@cache
def names_for_others(path: Path) -> set[str]:
    """All words of a text; of a module what its statements name, but for those that only offer names."""
    if not path.is_relative_to(PACKAGE):
        return set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return set().union(*(names for node, names in names_by_statement(path).items() if not only_offers(path, node)))


def test_a_public_name_is_used_by_more_than_tests() -> None:
    """By the code of its own module or of another one, or anywhere in the text of a lesson, an exercise, a document.

    A plain edition of a method, distlib/training/…/plain*.py, is there to be read and taken home.
    """
    others = [*(ROOT / "course").glob("*.py"), *ASSIGNMENTS, *WITH_LINKS]
    others += [ROOT / "distlib_backend.py", ROOT / "nbgrader_config.py", ROOT / "docker" / "hub" / "nbgrader_config.py"]
    named = Counter(name for path in (PACKAGE / "__init__.py", *MODULES, *others) for name in names_for_others(path))

    def unused(path: Path) -> list[str]:
        if path.is_relative_to(PACKAGE / "training") and path.name.startswith("plain"):
            return []
        found, names, given = [], names_by_statement(path), names_for_others(path)
        for node in names:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                here = any(node.name in names[it] for it in names if it is not node and not only_offers(path, it))
                elsewhere = named[node.name] > (node.name in given)
                found += [] if here or elsewhere or is_registered(node) else [node.name]
        return found

    assert {name for names in found_in(MODULES, unused).values() for name in names} == set(NAMED_BY_TESTS_ONLY)


# Names of cases in the notebooks of exercises that students have: they stay as they are. No exercise knows another one.
CASES = {
    "Pipeline": {"exercises/tensorflow/checks.py", "training/pipeline/executor.py"},
}


def test_a_class_name_is_defined_once() -> None:
    """One word, one meaning: in the whole package, with and without an underscore before it."""
    stand_ins = PACKAGE / "judge" / "sandbox" / "inside"  # modules that stand for those of the same name, in a sandbox
    found: dict[str, list[str]] = {}
    for path in [path for path in MODULES if not path.is_relative_to(stand_ins)]:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_"), []).append(path.relative_to(PACKAGE).as_posix())
    twice = {name: set(where) for name, where in found.items() if len(where) > 1}
    assert twice == CASES


# File names that stand more than once, and why: one idea in two rooms, or a command and what it calls.
SAME_FILE_NAMES = {
    *("__init__.py", "__main__.py"),
    *("checks.py", "plays.py", "cases.py", "helpers.py"),  # the shape of an exercise's folder, and the engine's helpers
    *("collect.py", "export.py", "hand_in.py", "release.py"),  # commands, and what they do
    *("background.py", "deaths.py"),  # of real and of simulated ranks
    *("arguments.py", "checkpoint.py", "naive.py", "timing.py"),  # the same idea, of different things
    "plain.py",  # the plain edition of a method of training
    "forkserver.py",  # of ranks, and in the sandbox
}


def test_a_file_name_stands_once() -> None:
    stand_ins = PACKAGE / "judge" / "sandbox" / "inside"
    names = [path.name for path in MODULES if not path.is_relative_to(stand_ins)]
    assert {name for name in names if names.count(name) > 1} == SAME_FILE_NAMES


def names_in_table(path: Path) -> set[str]:
    """The words that begin the rows of a table in a package's docstring, with two blanks or more behind them."""
    return set(re.findall(r"^ {0,4}([a-z_]+) {2,}\S", ast.get_docstring(tree_of(path)) or "", re.MULTILINE))


def names_of_package(path: Path) -> set[str]:
    """What is in a package: its modules and packages, and the names that its file, or its stub, has as text."""
    stub = path.with_suffix(".pyi")
    words = set(re.findall(r"\w+", stub.read_text())) if stub.exists() else set()
    words |= {str(node.value) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant)}
    return {module.stem for module in path.parent.iterdir()} | words


def test_the_table_of_a_package_names_what_there_is() -> None:
    assert found_in(PACKAGE.rglob("__init__.py"), lambda path: names_in_table(path) - names_of_package(path)) == {}


LAZY = sorted(module_of(path.with_suffix(".py")) for path in PACKAGE.rglob("__init__.pyi"))


@pytest.mark.parametrize("name", LAZY)
def test_every_name_of_a_stub_is_there_and_its_module_does_not_hide_it(name: str) -> None:
    package = import_module(name)
    assert [each for each in package.__all__ if not hasattr(package, each)] == []
    alone = f"from {name} import *"  # where nobody has loaded its modules
    done = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    modules = {path.stem for path in (ROOT / name.replace(".", "/")).iterdir()}
    assert [each for each in package.__all__ if each in modules and not inspect.ismodule(getattr(package, each))] == []


def test_an_unknown_name_is_answered_with_names_like_it() -> None:
    import distlib
    from distlib import draw

    with pytest.raises(AttributeError, match="^distlib has no 'al_reduce'; did you mean all_reduce"):
        distlib.al_reduce  # noqa: B018
    with pytest.raises(AttributeError, match="^distlib.draw has no 'xyz'$"):
        draw.xyz  # noqa: B018


def paths_imported_by_cells(path: Path) -> set[str]:
    """The packages and modules of distlib that a lesson's, or an exercise's, cells import from."""
    return set(re.findall(r"^ *(?:from|import) (distlib[.\w]*)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_lessons_and_exercises_import_from_ten_places() -> None:
    found = {name: path.name for path in [*LESSONS, *ASSIGNMENTS] for name in paths_imported_by_cells(path)}
    assert len(found) <= 10, f"export it from one of the packages that are used already: {found}"


def test_nothing_that_brings_the_other_distlib_is_installed() -> None:
    installed = {str(found.metadata["Name"]).lower() for found in importlib.metadata.distributions()}
    assert "distlib-course" in installed
    assert installed & {"distlib", "virtualenv"} == set()


# Lessons


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_a_number_a_name_and_a_notebook(path: Path) -> None:
    assert re.fullmatch(r"\d\d[a-z]?_[a-z_]+", path.stem)
    assert path.with_suffix(".ipynb").exists()


def test_the_first_lesson_is_what_make_lab_opens() -> None:
    from distlib.classroom.student_copies.copy_paths import FIRST_LESSON as FIRST_COPY, copies
    from distlib.cli.course_folder import FIRST_LESSON

    assert (ROOT / FIRST_LESSON).exists()
    assert LESSONS[0].with_suffix(".ipynb") == ROOT / FIRST_LESSON == copies(ROOT)[ROOT / FIRST_COPY]


def markdown_cells(path: Path) -> str:
    """The prose of a notebook."""
    notebook = nbformat.read(path, as_version=4)
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


NOTEBOOKS = sorted(path for folder in ("course", "solutions", "exercises") for path in (ROOT / folder).rglob("*.ipynb"))
NOTEBOOKS = [path for path in NOTEBOOKS if ".ipynb_checkpoints" not in path.parts]


@pytest.mark.parametrize("path", [*NOTEBOOKS, *WITH_LINKS], ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    text = markdown_cells(path) if path.suffix == ".ipynb" else path.read_text()
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (path.parent / link).exists()] == []


# Exercises


def graded(path: Path) -> dict[str, dict[str, object]]:
    """nbgrader's metadata of a notebook's cells, by grade_id."""
    notebook = nbformat.read(path, as_version=4)
    cells = [dict(cell.metadata.nbgrader) for cell in notebook.cells if "nbgrader" in cell.metadata]
    return {str(cell["grade_id"]): cell for cell in cells}


def functions_of(path: Path) -> list[str]:
    """The names of the functions that an assignment grades by tests."""
    cells = graded(path.with_suffix(".ipynb")).items()
    return [name for name, cell in cells if cell["solution"] and not cell["grade"]]


def test_there_are_exercises() -> None:
    assert [path.stem for path in ASSIGNMENTS] != []
    first = next(path for path in ASSIGNMENTS if path.stem == "02_all_reduce")
    assert functions_of(first) == ["naive_all_reduce", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce"]


@pytest.mark.parametrize("path", ASSIGNMENTS, ids=lambda path: path.stem)
def test_an_exercise_has_its_files_and_its_lesson(path: Path) -> None:
    assert path.stem == path.parent.name
    assert path.with_suffix(".ipynb").exists()
    assert (ROOT / "exercises" / path.stem / f"{path.stem}.ipynb").exists()
    assert lesson_for(path.stem, ROOT) in [lesson.stem for lesson in LESSONS]


@pytest.mark.parametrize("path", ASSIGNMENTS, ids=lambda path: path.stem)
def test_hidden_tests_give_at_least_half_of_the_points(path: Path) -> None:
    cells = graded(path.with_suffix(".ipynb"))
    for name in functions_of(path):
        visible, hidden = cells[f"{name}_visible"]["points"], cells[f"{name}_hidden"]["points"]
        assert isinstance(visible, int | float) and isinstance(hidden, int | float)
        assert hidden >= visible and hidden > 0, name


@pytest.mark.parametrize("path", ASSIGNMENTS, ids=lambda path: path.stem)
def test_a_stub_has_annotations_and_a_docstring(path: Path) -> None:
    notebook = nbformat.read(ROOT / "exercises" / path.stem / f"{path.stem}.ipynb", as_version=4)
    sources = {cell.id: cell.source for cell in notebook.cells}
    for name in functions_of(path):
        stub = next(node for node in ast.parse(sources[name]).body if getattr(node, "name", "") == name)
        assert isinstance(stub, ast.FunctionDef | ast.ClassDef)
        assert ast.get_docstring(stub), name
        if isinstance(stub, ast.FunctionDef):
            assert stub.returns is not None and all(argument.annotation for argument in stub.args.args), name


@pytest.mark.parametrize("path", ASSIGNMENTS, ids=lambda path: path.stem)
def test_every_graded_function_has_right_and_wrong_answers(path: Path) -> None:
    files = (ANSWERS / path.stem).rglob("*.*")
    assert {file.name for file in files if file.suffix not in (".py", ".pyc")} <= {CHANGES}, "read by nobody"
    answers = read_answers(path.stem)
    assert {answer.function for answer in answers} == set(functions_of(path))
    for name in functions_of(path):
        names = [answer.name for answer in answers if answer.function == name]
        assert len([answer for answer in names if answer.startswith("right_")]) >= 3, name
        assert len([answer for answer in names if answer.startswith("wrong_")]) >= 8, name
        assert [answer for answer in names if not answer.startswith(("right_", "wrong_"))] == [], name


@pytest.mark.parametrize("path", ASSIGNMENTS, ids=lambda path: path.stem)
def test_feedback_says_what_each_hidden_test_tests(path: Path) -> None:
    regions = re.findall(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", path.read_text(), re.DOTALL)
    assert regions
    assert [region for region in regions if not re.match(r"### What this tests: .+\.\n", region)] == []


# The documents


def make_targets() -> set[str]:
    """The targets of the Makefile that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_commands_that_exist(path: Path) -> None:
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)", path.read_text(), re.MULTILINE))
    assert named
    assert named - make_targets() == set()


def test_every_target_is_phony_and_listed() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)).split())
    assert phony == make_targets()


def test_contributing_is_one_page_that_points_to_every_guide() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 50
    assert set(re.findall(r"\]\(contributing/(\w+\.md)\)", text)) == {path.name for path in GUIDES}


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    lessons = [line for line in lines if line.startswith("| [")]
    # What the course is, for whom, its hours, and the commands of three kinds of readers.
    assert len(lines) - len(lessons) <= 66
    assert max(len(line) for line in lines if line not in lessons) <= 120


def test_the_formatter_lays_out_every_line() -> None:
    by_hand = [str(path.relative_to(PACKAGE)) for path in MODULES if "# fmt:" in path.read_text(encoding="utf-8")]
    assert by_hand == []
