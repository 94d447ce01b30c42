# Wrong: ends the rank's process. Loses all marks.
# Told: a rank's process ended in the middle.
# Told by the judge: no message was sent
import os
import signal


def ring_all_gather(comm, tensor):
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()
