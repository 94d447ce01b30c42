"""Images for the tests, made here: no registry is asked.

The base is this machine's own Debian or Ubuntu, made small, with the packages of this environment in the place where
the image installs them. So pip finds that nothing is missing, and minutes become seconds. To try installing, too, name
another base:

    DISTLIB_DOCKER_BASE=debian:trixie-slim python -m pytest tests/docker
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tools import own_system

BASE, LAB, HUB = "distlib-test-system", "distlib-test-lab", "distlib-test"
HUB_TARGETS = ("student", "teacher", "hub")
LEFT_OUT = (
    "tensorflow", "tensorboard", "keras", "tf_keras", "jax", "clang", "libclang", "grpc", "h5py", "playwright", "mypy",
    "*__mypyc", "torch/include", "torch/test/", "*/tests/", "jedi/third_party/django-stubs",
)  # fmt: skip
OF_THE_PROJECT = ("*/site-packages/*distlib_course", "*/site-packages/distlib")
LONG = 800  # seconds, on a busy machine; a free one takes a tenth
SECRET = "mirror.example"  # the name of a mirror, which must not get into an image


def docker(*words: str, timeout: float = LONG) -> str:
    """What a command of Docker's prints. AssertionError with its complaint if it fails."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"docker {' '.join(words)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="session")
def base_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a base for the Dockerfile. It stays, for the next time."""
    if "DISTLIB_DOCKER_BASE" in os.environ:
        return os.environ["DISTLIB_DOCKER_BASE"]
    if (problem := own_system.missing()) is not None:
        pytest.skip(f"{problem}, for a base image")
    with one_at_a_time(tmp_path_factory):
        if subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, timeout=100).returncode:
            folder = tmp_path_factory.mktemp("system")
            import_base(folder)
            shutil.rmtree(folder)
    return BASE


@contextmanager
def one_at_a_time(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In this block, no other worker of the same tests. What the first one makes, others find."""
    with open(tmp_path_factory.getbasetemp().parent / "docker.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def import_base(folder: Path) -> None:
    """An image of this machine's system and of this environment's packages. folder: an empty one."""
    try:
        system = own_system.lay_out(folder, own_system.packages(["python3", "python3-venv", "apt", "passwd", "tini"]))
    except LookupError as error:
        pytest.skip(f"{error}, for a base image")
    copy_programs(folder / "opt" / "venv" / "bin")
    left_out = [f"*/site-packages/{name}*" for name in LEFT_OUT]
    archive = ["tar", "-c", "--numeric-owner", *(f"--exclude={pattern}" for pattern in (*left_out, *OF_THE_PROJECT))]
    archive += [f"--transform=s,^[.]{sys.prefix},opt/venv,", "-C", str(folder), "opt/venv/bin", "-C", "/"]
    archive += [f".{sys.prefix}/{name}" for name in ("etc", "lib", "share") if Path(sys.prefix, name).is_dir()]
    archive += ["--no-recursion", "--verbatim-files-from", "-T", str(system), "-C", str(folder), *own_system.MADE]
    with subprocess.Popen(archive, stdout=subprocess.PIPE) as packing:
        subprocess.run(["docker", "import", "-", BASE], stdin=packing.stdout, check=True, timeout=LONG)
    assert packing.returncode == 0


def copy_programs(folder: Path) -> None:
    """This environment's programs, for the Python of the image's environment."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = f"#!{sys.prefix}/bin/".encode()
    for program in Path(sys.prefix, "bin").iterdir():
        if program.is_file() and not program.is_symlink() and (text := program.read_bytes()).startswith(ours):
            (folder / program.name).write_bytes(b"#!/opt/venv/bin/" + text.removeprefix(ours))
            (folder / program.name).chmod(0o755)


@pytest.fixture(scope="session")
def lab_image(base_image: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the image `lab`, built without TensorFlow and JAX. It stays: other workers may need it."""
    with one_at_a_time(tmp_path_factory):
        return build(root, base_image, "lab", LAB, **_offline(base_image))


@pytest.fixture(scope="session")
def gpu_image(lab_image: str, base_image: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the image `lab-gpu`, with the same torch, since the base has that."""
    with one_at_a_time(tmp_path_factory):
        return build(root, base_image, "lab-gpu", f"{LAB}-gpu", **_offline(base_image))


@pytest.fixture(scope="session")
def hub_images(base_image: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the names of the images of a class begin with. They stay."""
    with one_at_a_time(tmp_path_factory):
        base = base_with_wheels(root, tmp_path_factory.mktemp("hub")) if base_image == BASE else base_image
        for target in HUB_TARGETS:
            build(root, base, target, f"{HUB}-{target}", **_offline(base_image), PIP_FIND_LINKS="/wheels")
    return HUB


def _offline(base: str) -> dict[str, str]:
    """Build arguments where the base has all packages already."""
    return {"PIP_NO_INDEX": "1", "PIP_TRUSTED_HOST": SECRET} if base == BASE else {}


def build(root: Path, base: str, target: str, name: str, **options: str) -> str:
    """Build a target of the Dockerfile without TensorFlow and JAX. Returns the image's name. options: its arguments."""
    options = {"BASE": base, "WITHOUT": "tensorflow|jax", **options}
    words = [word for option, value in options.items() for word in ("--build-arg", f"{option}={value}")]
    docker("build", "-f", str(root / "docker" / "Dockerfile"), "--target", target, "-t", name, *words, str(root))
    return name


def base_with_wheels(root: Path, folder: Path) -> str:
    """The base, and JupyterHub for pip to find, which this environment does not have. It stays, for the next time."""
    versions = (root / "constraints.txt").read_bytes()
    name = f"{BASE}-hub:{hashlib.sha256(versions).hexdigest()[:12]}"
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True, timeout=100).returncode == 0:
        return name
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder / "wheels")]
    download += ["-c", str(root / "constraints.txt"), "jupyterhub", "dockerspawner"]
    done = subprocess.run(download, capture_output=True, text=True, timeout=LONG)
    if done.returncode:
        pytest.skip(f"JupyterHub can't be downloaded: {done.stderr[-300:]}")
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY wheels /wheels\n")
    docker("build", "-t", name, str(folder))
    return name
