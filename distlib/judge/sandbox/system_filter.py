"""The calls into the system that a rank is refused: a seccomp filter, as Linux has it (seccomp(2)).

Namespaces and limits do most of the work. The filter refuses what they leave open:

    another process      so that a limit for one process limits the rank, and nothing outlives it
    a socket             some kinds reach beyond a network namespace
    memory nobody counts memory that belongs to no process would get around the limit
    shared objects       locks and watches on files that all may read, and key rings: ranks could talk through them
    shared counters      what of a file is in memory, and how busy the machine is: the same
    more namespaces      inside a new one a process may mount what it likes
    other doors          of no use here, and often where the kernel's holes were
    what is newer        a call that this list does not know, since Linux got it later

A refused call fails with PermissionError, a newer one as on a Linux without it. Nothing is killed. The filter
can't be taken off again.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# name: (number on x86_64, number on aarch64); None where a machine has no such call. From the kernel's unistd.h.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "cachestat": (451, 451),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fadvise64": (221, 223),
    "fanotify_init": (300, 262),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "fork": (57, None),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mincore": (27, 232),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "preadv2": (327, 286),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "readahead": (187, 213),
    "request_key": (249, 218),
    "semget": (64, 190),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setns": (308, 268),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "sysinfo": (99, 179),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vfork": (58, None),
    "vmsplice": (278, 75),
}

_WITH_CONDITIONS = ("clone", "clone3", "fcntl", "prctl", "socketpair")
_FIRST_UNKNOWN = 453  # the same on all machines since Linux 5.1; 452 is fchmodat2, of Linux 6.6
_LOCAL = 1  # AF_UNIX, the family of sockets that stay in the process
_CLONE_THREAD = 0x00010000
# fcntl: F_GETLK, F_SETLK, F_SETLKW, the same for open files, F_SETLEASE, F_NOTIFY
_FILE_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1026)
_SET_PARENT_DEATH_SIGNAL = 1

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of NUMBERS, AUDIT_ARCH_…
_OTHER_ABI = 0x40000000  # on x86_64, the numbers of the x32 calls begin here

# Classic BPF, as in linux/filter.h. Offsets into struct seccomp_data: the call's number, the machine, the arguments.
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _KILL_PROCESS, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000

_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def is_supported(machine: str | None = None, system: str | None = None) -> bool:
    """Whether this machine's calls are known here."""
    return (system or platform.system()) == "Linux" and (machine or platform.machine()) in _MACHINES


def refuse_calls() -> None:
    """Put the filter on this process, for good.

    Raises:
        OSError: the system has no such filters.
    """
    program = filter_program(platform.machine())
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER_MODE, described, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "the system refuses a filter for system calls")


def filter_program(machine: str) -> list[Instruction]:
    """The filter for a machine ("x86_64" or "aarch64"), as instructions of classic BPF."""
    column, architecture = _MACHINES[machine]
    numbers = {name: row[column] for name, row in NUMBERS.items()}
    program: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),  # calls of another machine, such as 32-bit ones, have other numbers
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _OTHER_ABI), _fail(errno.ENOSYS)]
    program += [(_AT_LEAST, 0, 1, _FIRST_UNKNOWN), _fail(errno.ENOSYS)]
    for name, number in numbers.items():
        if number is not None and name not in _WITH_CONDITIONS:
            program += [(_EQUAL, 0, 1, number), _fail(errno.EPERM)]
    program += _when(numbers["clone"], _FIRST_ARGUMENT, [(_HAS_BITS, 1, 0, _CLONE_THREAD), _fail(errno.EPERM)])
    # The filter can't look into clone3's arguments. The C library then takes clone.
    program += _when(numbers["clone3"], _NUMBER, [_fail(errno.ENOSYS)])
    program += _when(numbers["socketpair"], _FIRST_ARGUMENT, [(_EQUAL, 1, 0, _LOCAL), _fail(errno.EPERM)])
    for command in _FILE_LOCKS:
        program += _when(numbers["fcntl"], _SECOND_ARGUMENT, [(_EQUAL, 0, 1, command), _fail(errno.EPERM)])
    dying = [(_EQUAL, 0, 1, _SET_PARENT_DEATH_SIGNAL), _fail(errno.EPERM)]
    program += _when(numbers["prctl"], _FIRST_ARGUMENT, dying)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _fail(number: int) -> Instruction:
    return (_RETURN, 0, 0, _FAIL | number)


def _when(number: int | None, argument: int, body: list[Instruction]) -> list[Instruction]:
    """Run `body` on an argument (its lower half) if the call is `number`; the call's number is loaded afterwards."""
    assert number is not None
    return [(_EQUAL, 0, len(body) + 2, number), (_LOAD, 0, 0, argument), *body, (_LOAD, 0, 0, _NUMBER)]
