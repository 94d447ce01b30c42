"""Where the code of students runs when a class is graded: processes that can hurt nobody and see nothing of interest.

    judge ──starts──► bubblewrap | docker | nothing
                        └─ fork server: Python and torch, none of any student's code
                             ├─fork─► fork server of one submission, as clean
                             │          ├─fork_rank─► rank 0: isolated, then the student's cells
                             │          └─fork_rank─► rank 1: …
                             └─fork─► that of the next one: …

    kinds           bubblewrap, docker, none; `choose_sandbox` picks one
    contents        what a sandbox shows of the system, of Python and of distlib; everything else is not there
    isolation       separates one rank from the others and from the fork server, for good
    system_filter   the calls into the system that a rank is refused
    inside/         what `import distlib` finds in there where that isn't the real module

What a rank has, with bubblewrap or docker: the files that `contents` lists, read-only; a folder of its own, of limited
size and gone with it; the connection to the judge; memory, threads and open files up to `Limits`. It is one process: it
can't start another. It has no network, no user's rights, and sees no other process.

What no sandbox of this kind promises: that two ranks can't signal to each other by how busy they keep the machine, or
that a hole in the system's kernel can't be used.
"""

from distlib.judge.sandbox.isolation import fork_rank, take_users
from distlib.judge.sandbox.kinds import Confined, Sandbox
from distlib.judge.sandbox.limits import Limits
from distlib.judge.sandbox.selection import KINDS, choose_sandbox

__all__ = ["KINDS", "Confined", "Limits", "Sandbox", "choose_sandbox", "fork_rank", "take_users"]
