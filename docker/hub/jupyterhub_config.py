"""The hub of a class: who signs in gets a container, and in it what is theirs.

    volume CLASS-exchange             in a student's container                  in an instructor's: all of it
      CLASS/outbound/                 /exchange/CLASS/outbound, to read
      CLASS/inbound/ada/   ada's box  /exchange/CLASS/inbound, of ada only
      CLASS/feedback/                 /exchange/CLASS/feedback, to read names that one knows

    network CLASS.ada                           ada's container and the hub, nobody else: see networks.py
    volumes CLASS.ada.home, CLASS.ada.work      ada's home and ada's copies of the course
    volume CLASS-classroom                      submissions and gradebook: in instructors' containers only

All students have the same user id, so no permission could keep them apart. What keeps them apart is that a container
does not hold what belongs to others.
"""

import os
import sys
from pathlib import Path

from tornado.web import HTTPError

from docker import APIClient

sys.path.insert(0, str(Path(__file__).parent))
import admission  # noqa: E402
import networks  # noqa: E402

CLASS, IMAGES = os.environ["CLASS"], os.environ["IMAGES"]
INSTRUCTORS = os.environ["INSTRUCTORS"].replace(",", " ").split()
STUDENT, TEACHER = 1000, 1001  # user ids, see the Dockerfile
DATA, EXCHANGE = Path("/srv/hub/data"), Path("/exchange")

c = get_config()  # noqa: F821  (JupyterHub defines it)


def make_exchange():
    """The folders that nbgrader expects, with the modes that it checks."""
    course = EXCHANGE / CLASS
    folders = {EXCHANGE: 0o777, course: 0o755, course / "outbound": 0o755}
    for folder, mode in {**folders, course / "inbound": 0o2733, course / "feedback": 0o711}.items():
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)
        os.chown(folder, TEACHER, TEACHER)


def prepare(spawner):
    """Called before a container is made: what it is made of, and what it holds."""
    name = spawner.user.name
    if name not in admission.read_list():  # but still signed in, from before
        raise HTTPError(403, f"{name} is not on the list any more")
    spawner.network_name = networks.join(client, CLASS, name, HUB)
    (prepare_teacher if name in INSTRUCTORS else prepare_student)(spawner, name)


def clear_up(spawner):
    """Called when a container has ended."""
    networks.leave(client, CLASS, spawner.user.name, HUB)


def prepare_student(spawner, name):
    spawner.image = f"{IMAGES}-student"
    spawner.default_url = "/lab/tree/lessons/lesson_00_start_here.ipynb"
    box = EXCHANGE / CLASS / "inbound" / name
    box.mkdir(exist_ok=True)
    os.chown(box, STUDENT, STUDENT)
    here, there = Path(on_this_machine(EXCHANGE), CLASS), Path("/exchange", CLASS)
    spawner.volumes = {
        f"{CLASS}.{name}.home": "/home/student",
        f"{CLASS}.{name}.work": "/course/work",
        str(here / "inbound" / name): str(there / "inbound"),
    }
    spawner.read_only_volumes = {str(here / part): str(there / part) for part in ("outbound", "feedback")}
    spawner.mem_limit, spawner.cpu_limit = os.environ["MEMORY"], float(os.environ["CORES"])


def prepare_teacher(spawner, name):
    spawner.image = f"{IMAGES}-teacher"
    spawner.cmd = [*LAB, "--instructor"]
    spawner.volumes = {
        f"{CLASS}.{name}.home": "/home/teacher",
        f"{CLASS}-classroom": "/course/classroom",
        f"{CLASS}-exchange": "/exchange",
    }
    # bubblewrap makes namespaces, in which the students' answers run. Docker's filters forbid that; the user still has
    # no rights.
    spawner.extra_host_config = LIMITS | {"security_opt": ["no-new-privileges", "seccomp=unconfined"]}
    spawner.extra_create_kwargs = {"host_config": {"MaskedPaths": [], "ReadonlyPaths": []}}


def on_this_machine(path):
    """Where Docker keeps the volume that the hub's own container has at `path`."""
    mounts = client.inspect_container(HUB)["Mounts"]
    return next(mount["Source"] for mount in mounts if mount["Destination"] == str(path))


client = APIClient()
HUB = client.inspect_container(os.environ["HOSTNAME"])["Id"]
make_exchange()
networks.rejoin(client, CLASS, HUB)

c.JupyterHub.authenticator_class = admission.authenticator()
c.Authenticator.allow_all = True  # who is not on the list does not get so far
c.JupyterHub.load_roles = [
    {"name": "instructor", "users": INSTRUCTORS, "scopes": ["admin-ui", "list:users", "servers"]},
]

c.JupyterHub.hub_ip = "0.0.0.0"
c.JupyterHub.hub_connect_ip = "hub"
c.JupyterHub.db_url = f"sqlite:///{DATA}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(DATA / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = "/dev/shm/proxy.pid"  # empty at each start

LIMITS = {
    "cap_drop": ["ALL"],
    "cap_add": ["SYS_PTRACE"],  # ranks read each other's memory, see docker/compose.yaml
    "security_opt": ["no-new-privileges"],
    "shm_size": "1g",
    "pids_limit": 2048,
}
# A kernel that nobody looks at and that does nothing ends after a while, and then the container.
IDLE = os.environ["IDLE"]
LAB = ["distlib", "lab", "--no-browser", f"--ServerApp.shutdown_no_activity_timeout={IDLE}"]
LAB += [
    f"--{kind}={IDLE}" for kind in ("MappingKernelManager.cull_idle_timeout", "TerminalManager.cull_inactive_timeout")
]

c.JupyterHub.spawner_class = "docker"
c.Spawner.pre_spawn_hook = prepare
c.Spawner.post_stop_hook = clear_up
c.Spawner.cmd = LAB
# What instructors say of due dates, students see there.
c.Spawner.environment = {"CLASS": CLASS, "DISTLIB_DUE_DATES": f"/exchange/{CLASS}/outbound/.due_dates.json"}
c.Spawner.start_timeout = c.Spawner.http_timeout = 300
c.DockerSpawner.prefix = CLASS
c.DockerSpawner.name_template = "{prefix}.{raw_username}"
c.DockerSpawner.extra_host_config = LIMITS
c.DockerSpawner.pull_policy = "never"
c.DockerSpawner.remove = True  # volumes stay
