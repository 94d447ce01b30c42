"""Images for the tests, made here: no registry is asked.

The base is Debian, by debootstrap, with the packages of this environment in the place where the image installs them. So
pip finds that nothing is missing, and minutes become seconds. To try installing, too, name another base:

    DISTLIB_DOCKER_BASE=debian:trixie-slim python -m pytest tests/docker
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BASE, LAB = "distlib-test-base", "distlib-test-lab"
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
    options = {"BASE": base_image, "WITHOUT": "tensorflow|jax"}
    if base_image == BASE:
        options |= {"PIP_NO_INDEX": "1", "PIP_TRUSTED_HOST": SECRET}
    words = [word for name, value in options.items() for word in ("--build-arg", f"{name}={value}")]
    docker("build", "-f", str(root / "docker" / "Dockerfile"), "--target", "lab", "-t", LAB, *words, str(root))
    yield LAB
    docker("image", "rm", "--no-prune", LAB)  # what the next build can take is kept
