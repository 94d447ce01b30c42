"""Enough of Docker's command line to try the Docker sandbox where no Docker service runs: containers by bubblewrap.

    python fake_docker.py run --network none --volume /usr:/usr:ro … IMAGE COMMAND …

It understands the options that `distlib.judge.sandbox.docker` uses and refuses all others. What it can't show: that
Docker itself takes these options, and its limits for a container as a whole.
"""

import os
import sys

EMPTY, GRADER = "distlib-empty", "distlib-grader"  # as in distlib.judge.sandbox.docker, whose import takes seconds
FLAGS = ("--rm", "--read-only", "--no-healthcheck")
FIXED = {
    "--network": ["none"],
    "--ipc": ["none"],
    "--user": ["0:0"],
    "--entrypoint": [""],
    "--log-driver": ["none"],
    "--cap-drop": ["ALL"],
    "--security-opt": ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"],
}
OTHERS = ("--name", "--cap-add", "--tmpfs", "--env", "--volume", "--workdir")


def run(words: list[str]) -> None:
    """docker run: becomes bubblewrap."""
    options: dict[str, list[str]] = {name: [] for name in (*FIXED, *OTHERS)}
    while words[0].startswith("--"):
        name = words.pop(0)
        if name not in FLAGS:
            options[name].append(words.pop(0))
    for name, values in FIXED.items():
        assert options[name] == values, f"{name}: {options[name]}"
    assert words.pop(0) == EMPTY, "the image that shows this machine's Python"
    os.execvp("bwrap", ["bwrap", *bubblewrap_options(options), "--", *words])


def bubblewrap_options(options: dict[str, list[str]]) -> list[str]:
    """The container as bubblewrap makes it."""
    from distlib.judge.sandbox.contents import folders_above

    volumes = [value.split(":") for value in options["--volume"]]
    assert {mode for _, _, mode in volumes} == {"ro"}
    made = "--unshare-pid --unshare-net --unshare-ipc --unshare-uts --die-with-parent --clearenv --cap-drop ALL".split()
    for right in options["--cap-add"]:
        made += ["--cap-add", f"CAP_{right}"]
    for variable in options["--env"]:
        made += ["--setenv", *variable.split("=", 1)]
    for folder in folders_above([target for _, target, _ in volumes]):
        made += ["--perms", "0755", "--dir", folder]
    for source, target, _ in volumes:
        made += ["--ro-bind", source, target]
    for mount in options["--tmpfs"]:
        made += ["--tmpfs", mount.split(":")[0], "--remount-ro", mount.split(":")[0]]
    return [*made, "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/", "--chdir", options["--workdir"][0]]


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "run":
        run(rest)
    elif command == "version":
        print("linux")
    elif rest[-1:] == [GRADER]:
        sys.exit(f"No such image: {GRADER}")
    elif command not in ("image", "import", "rm"):
        sys.exit(f"fake docker: unknown command {command}")
