"""What a sandbox shows: the system's programs, this Python's environment, and of distlib what a rank needs.

Everything is read-only. What isn't listed here doesn't exist in a sandbox: no home of a user, no classroom, no
exercises with hidden tests, no reference solutions, no checks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import distlib_backend
from distlib.checks.plays import all_plays
from distlib.frameworks.optional import QUIET

PACKAGE = Path(__file__).parents[2]
LIBRARY = "/library"  # where the sandbox's distlib lies
HOME = "/student"  # a rank's own folder

# The real modules that a rank may import, besides all plays, and the text that one of them reads. Solutions of an
# exercise, formulas that one asks for, and checks are not among them; `inside` has what stands in their place.
MODULES = (
    "arguments.py",
    "collectives/reduction.py",
    "communicator.py",
    "communicator_names.py",
    "exercises/__init__.py",
    "exercises/__init__.pyi",
    "checks/helper_form.py",
    "checks/remark.py",
    "checks/sentences.py",
    "checks/student_communicator.py",
    "checks/student_communicator.txt",
    "frameworks/optional.py",
    "frameworks/tensorflow_graphs.py",
    "judge/__init__.py",
    "judge/remote/__init__.py",
    "judge/remote/memory_watch.py",
    "judge/remote/orders.py",
    "judge/remote/rank_communicator.py",
    "judge/remote/sandbox_side.py",
    "judge/remote/helpers_on_a_rank.py",
    "judge/remote/records.py",
    "judge/remote/wire.py",
    "judge/sandbox/__init__.py",
    "judge/sandbox/absent.py",
    "judge/sandbox/bubblewrap.py",
    "judge/sandbox/contents.py",
    "judge/sandbox/docker.py",
    "judge/sandbox/isolation.py",
    "judge/sandbox/kinds.py",
    "judge/sandbox/limits.py",
    "judge/sandbox/selection.py",
    "judge/sandbox/system_filter.py",
    "judge/sandbox/unconfined.py",
    "lazy_names.py",
    "living_line.py",
    "network/cluster.py",
    "own_folders.py",
    "partition.py",
    "shadowing.py",
    "tensor_kinds.py",
    "trace.py",
    "torch_backend/arguments.py",
    "torch_backend/default_group.py",
    "torch_backend/torch_group.py",
    "torch_backend/works.py",
    "training/__init__.py",
    "training/__init__.pyi",
    "training/datasets.py",
    "training/digits.csv.gz",
    "worlds/call_site.py",
    "worlds/diagnosis.py",
    "worlds/exception_text.py",
    "worlds/message_check.py",
    "worlds/private_torch.py",
    "worlds/tensor_bytes.py",
)

TORCHS = ("torch.utils.data.distributed",)  # modules of torch that are answers

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/alternatives",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_BESIDE_THE_PACKAGE = ("classroom", "course", "exercises", "solutions", "tests", ".git")


def environment(home: str = HOME, library: str = LIBRARY) -> dict[str, str]:
    """All variables that a sandbox starts with; nothing is inherited."""
    return {
        "HOME": home,
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",  # else every thread reserves much more memory than it uses, and limits count it
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": library,
        **QUIET,
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TMPDIR": home,
        "TORCHINDUCTOR_CACHE_DIR": home,  # torch's optimizers import its compiler, which asks for it
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # the course's own backend is not in a sandbox
        "USER": "student",
    }


def library_files() -> dict[str, Path]:
    """The files of the sandbox's distlib: from the path inside `LIBRARY` to the file here.

    Raises:
        RuntimeError: one of them is missing: the package is damaged.
    """
    files = {f"distlib/{name}": PACKAGE / name for name in MODULES}
    files["distlib_backend.py"] = Path(distlib_backend.__file__)
    for name, path in all_plays().items():
        folder = Path(*name.split(".")[:-1])
        files |= {f"{folder}/__init__.py": path.parent / "__init__.py", f"{folder}/{path.name}": path}
    inside = Path(__file__).parent / "inside"
    for path in sorted(inside.rglob("*.py")):
        files[f"distlib/{path.relative_to(inside).as_posix()}"] = path
    missing = [str(path) for path in files.values() if not path.is_file()]
    if missing:
        raise RuntimeError(f"the sandbox needs {missing[0]}, which is not there: make a fresh environment (make env)")
    return files


def system_links() -> dict[str, str]:
    """Links at the top of the system, such as /bin to usr/bin: from their path to where they lead."""
    return {path: str(Path(path).readlink()) for path in _SYSTEM if Path(path).is_symlink() and path.count("/") == 1}


def shown_folders() -> list[Path]:
    """What of the system and of this Python is shown, at its own place. Of two, one in the other, only the outer."""
    links = system_links()
    wanted = {Path(path) for path in _SYSTEM if path not in links and Path(path).exists()}
    wanted |= {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]}
    return sorted(path for path in wanted if not any(other in path.parents for other in wanted))


def hidden_folders(shown: Sequence[Path]) -> list[Path]:
    """What lies inside a shown folder and must not be seen: distlib itself, and what lies next to it in a checkout."""
    candidates = {PACKAGE, *(PACKAGE.parent / name for name in _BESIDE_THE_PACKAGE)}
    candidates |= {path / "distlib" for path in map(Path, sys.path) if path.is_absolute()}
    return sorted(path for path in candidates if path.is_dir() and any(folder in path.parents for folder in shown))


def hidden_files() -> list[Path]:
    """The files of `TORCHS`, compiled ones too. In a sandbox they are empty."""
    found = []
    for folder in dict.fromkeys(Path(path) for path in sys.path if Path(path).is_absolute()):
        for name in TORCHS:
            file = folder.joinpath(*name.split(".")).with_suffix(".py")
            found += [file, *file.parent.glob(f"__pycache__/{file.stem}.*")] if file.is_file() else []
    return found


def folders_above(paths: Sequence[str]) -> list[str]:
    """Every folder that must exist for `paths` to have a place, outer ones first; without the root itself."""
    above = {str(folder) for path in paths for folder in Path(path).parents}
    return sorted(above - {"/"})
