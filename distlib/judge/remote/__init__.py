"""Grading with the judge as the network: the student's code runs in other processes and can only send and receive.

    judge's process                                   rank processes, in a sandbox
    ───────────────                                   ────────────────────────────
    test cells, checks, expected values               the student's cells, one process a rank
    SimulatedWorld                                    ring_all_reduce(comm, tensor)
      rank 0 ◄──────────────── a wire ──────────────►   comm.send(…), comm.recv(…)
      rank 1 ◄──────────────── a wire ──────────────►   …

    wire                frames of JSON and raw tensor bytes; nothing is unpickled
    sandbox_side        what runs in the sandbox
    forkserver          here: the hold on the fork server, from which all processes in the sandbox come
    rank_communicator   there: a Communicator whose every call goes over the wire
    ranks               here: starts and ends these processes
    proxy               here: a rank function that does on a simulated communicator what its remote rank asks for
    stand_in            here: what a student's function is called in the test cells
    frameworks          here: which of TensorFlow and JAX the fork server imports
    introspection_remarks  here: lines of the student's that look for what a rank reports about itself
    judge               here: runs a notebook

A rank has its own input and its wire, and no way around it (`distlib.judge.sandbox`). So a sum can only be right if
information travelled, and it can only travel in messages that were routed, and counted, here.
"""
