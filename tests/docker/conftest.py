"""Images for the tests, made here: no registry is asked.

The base is Debian, by debootstrap, with the packages of this environment in the place where the image installs them. So
pip finds that nothing is missing, and minutes become seconds. To try installing, too, name another base:

    DISTLIB_DOCKER_BASE=debian:trixie-slim python -m pytest tests/docker
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BASE, LAB, HUB = "distlib-test-base", "distlib-test-lab", "distlib-test"
HUB_TARGETS = ("student", "teacher", "hub")
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}  # Debian's, by their Python
LEFT_OUT = tuple(
    f"*/site-packages/{name}"
    for name in ("tensorflow", "keras", "tf_keras", "jax", "clang", "libclang", "playwright", "mypy")
)
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
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("needs debootstrap, and root, for a base image")
    if sys.version_info[:2] not in SUITES:
        pytest.skip(f"no Debian has Python {sys.version_info[0]}.{sys.version_info[1]}")
    if subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, timeout=100).returncode:
        folder = tmp_path_factory.mktemp("debian")
        unpack_debian(folder)
        import_base(folder)
        shutil.rmtree(folder)
    return BASE


def unpack_debian(folder: Path) -> None:
    """Debian, with the Python that runs this test, in an empty folder."""
    suite = SUITES[sys.version_info[0], sys.version_info[1]]
    wanted = "--include=python3,python3-venv,tini"
    debootstrap = ["debootstrap", "--variant=minbase", wanted, suite, str(folder)]
    done = subprocess.run(debootstrap, capture_output=True, text=True, timeout=LONG)
    if done.returncode:
        pytest.skip(f"debootstrap failed: {done.stdout[-300:]}")


def import_base(folder: Path) -> None:
    """An image of what is in `folder` and of this environment's packages."""
    copy_programs(folder / "opt" / "venv" / "bin")
    left_out = [f"--exclude={name}*" for name in (*LEFT_OUT, *OF_THE_PROJECT)]
    archive = ["tar", "-c", "--exclude=./var/cache/apt/archives/*.deb", "-C", str(folder), ".", *left_out]
    archive += [f"--transform=s,^[.]{sys.prefix},opt/venv,", "-C", "/"]
    archive += [f".{sys.prefix}/{name}" for name in ("etc", "lib", "share") if Path(sys.prefix, name).is_dir()]
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
def lab_image(base_image: str, root: Path) -> Iterator[str]:
    """The name of the image `lab`, built without TensorFlow and JAX."""
    options = {"PIP_NO_INDEX": "1", "PIP_TRUSTED_HOST": SECRET} if base_image == BASE else {}
    build(root, "lab", LAB, BASE=base_image, **options)
    yield LAB
    docker("image", "rm", "--no-prune", LAB)  # what the next build can take is kept


def build(root: Path, target: str, name: str, **options: str) -> None:
    """Build a target of the Dockerfile without TensorFlow and JAX. options: build arguments."""
    options = {"WITHOUT": "tensorflow|jax", **options}
    words = [word for option, value in options.items() for word in ("--build-arg", f"{option}={value}")]
    docker("build", "-f", str(root / "docker" / "Dockerfile"), "--target", target, "-t", name, *words, str(root))


@pytest.fixture(scope="session")
def hub_images(base_image: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the names of the images of a class begin with."""
    options = {"BASE": base_image}
    if base_image == BASE:
        with_wheels = base_with_wheels(root, tmp_path_factory.mktemp("hub"))
        options = {"BASE": with_wheels, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    for target in HUB_TARGETS:
        build(root, target, f"{HUB}-{target}", **options)
    yield HUB
    docker("image", "rm", "--no-prune", *(f"{HUB}-{target}" for target in HUB_TARGETS))


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
