"""Tensors between the ranks of one machine, through the memory that they share: no socket, no port, one copy.

The message that announces a tensor says where it lies in the memory of its sender. The rank that takes it has the
system copy it from there straight into its own tensor (process_vm_readv(2)), and answers.

    sender                                   receiver
      │ OFFER: 4 MB at address 0x7f… ──────────►│
      │ blocks, and leaves its tensor alone     │ the system copies 4 MB from there to here
      │◄────────────────────────────────── TAKE │
      ▼ send returns                            ▼ recv returns

Each byte is copied once, where TCP within the machine copies it twice: into buffers of the system and out of them. The
sender has no part in the copying, so it may compute meanwhile, and two ranks on one core need not take turns. No buffer
is needed, of any size: nothing lies in /dev/shm, and nothing can be left there, however the processes end. (MPI
libraries call this cross-memory attach: B. Goglin and S. Moreaud, "KNEM: a generic and scalable kernel-assisted
intra-node MPI communication framework", J. Parallel Distrib. Comput. 73(2), 2013.)

Linux allows it between processes of one user that may also debug each other. Some systems let only a parent debug its
children (kernel.yama.ptrace_scope = 1), so each rank allows it to the descendants of its own parent, the fork server:
that is, to the other ranks. Where it is forbidden altogether, and on other systems, large tensors go through gloo.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import lru_cache

import torch

from distlib.worlds.tensor_bytes import landing_of

_PIECE = 16 * 2**20  # bytes at a time: between two pieces a rank can be interrupted
_SET_PTRACER = 0x59616D61  # PR_SET_PTRACER, prctl(2)
_Piece = ctypes.c_size_t * 2  # struct iovec: address, length
Address = tuple[int, int]  # process id and address in its memory: where a tensor lies


class NoSharedMemory(OSError):
    """The ranks can't read each other's memory here."""


def memory_address(tensor: torch.Tensor) -> Address:
    """Where a contiguous tensor in main memory lies, for the other ranks of this machine."""
    return os.getpid(), tensor.data_ptr()


def fill_from(there: Address, tensor: torch.Tensor) -> bool:
    """Copy what lies `there`, as many bytes as `tensor` has, in row order. In place.

    Returns:
        False if the process that it lies in has ended.

    Raises:
        OSError: it can't be read.
    """
    pid, address = there
    landing = landing_of(tensor)
    nbytes, target = landing.nbytes, landing.data_ptr()
    for start in range(0, nbytes, _PIECE):
        error = _copy(pid, address + start, target + start, min(_PIECE, nbytes - start))
        if error == errno.ESRCH:
            return False
        if error:
            raise OSError(error, f"can't read {nbytes:,} bytes from another rank: {os.strerror(error)}")
    if landing is not tensor:
        tensor.detach().copy_(landing)
    return True


def allow(family: int) -> None:
    """Let the descendants of process `family` read this process's memory, where the system asks for such leave."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(family), 0, 0, 0)


@lru_cache(maxsize=1)
def problem() -> str | None:
    """Why the children of this process can't read each other's memory; None if they can.

    It is tried: a child reads a number of its parent's. Only for a process that has one thread.
    """
    if sys.platform != "linux":
        return "only Linux has it"
    secret = torch.randint(2**62, (1,))
    there = memory_address(secret)
    allow(os.getpid())
    child = os.fork()
    if child == 0:
        os._exit(_try_to_read(there, secret))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if status == 0 else _reason(status)


def _try_to_read(there: Address, secret: torch.Tensor) -> int:
    """The error number, 0 if all is well. In the child."""
    copy = torch.zeros_like(secret)
    error = _copy(*there, copy.data_ptr(), 8)
    return error if error or torch.equal(copy, secret) else errno.EIO


def _reason(status: int) -> str:
    if status in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return "this system, or its container, forbids processes to read each other's memory"
    return f"reading another process's memory fails: {os.strerror(status) if status > 0 else f'signal {-status}'}"


def _copy(pid: int, there: int, here: int, nbytes: int) -> int:
    """Copy from an address of another process to one of this process. Returns 0, or the error number."""
    done = 0
    while done < nbytes:
        mine, theirs = _Piece(here + done, nbytes - done), _Piece(there + done, nbytes - done)
        count = _libc().process_vm_readv(pid, mine, 1, theirs, 1, 0)
        if count <= 0:
            return ctypes.get_errno() or errno.EIO
        done += count
    return 0


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    pieces = ctypes.POINTER(_Piece)
    libc.process_vm_readv.argtypes = (ctypes.c_int, pieces, ctypes.c_ulong, pieces, ctypes.c_ulong, ctypes.c_ulong)
    return libc
