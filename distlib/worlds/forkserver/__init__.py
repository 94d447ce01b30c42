"""A fork server: a process that has imported what takes long, and is forked whenever another process is needed.

    kernel ──requests, open files──► fork server ──fork──► a process, another one, …
           ◄──answers, reports──────      └─ one thread, heavy modules loaded, nothing computed

A kernel must not fork itself: it has threads, and perhaps a CUDA context. A fresh Python for each process would import
torch or TensorFlow each time, for seconds. A fork of a fresh Python that has done nothing but that costs milliseconds,
and shares its memory.

The fork server ends when the kernel's end of the socket closes, however the kernel ended, and takes along all that it
has forked, and what these have started. Only it signals them: they are its own children, and it knows which still
exist.

handle          the kernel's side: start it, ask it for processes, signal them, learn how they ended
service         its own side: import, fork, report, end what is left
channel         what goes between the two

Who has one:

worlds.real.forkserver   the ranks of all worlds of a kernel; it has imported torch
frameworks.forkservers   the processes of demonstrations, in a network of their own; TensorFlow, JAX
launch.slurm_node        forks once and takes no requests: srun starts it; it uses `freeze` and `die_with_parent`

Three have another one, for the reasons that stand there: the judge (judge.remote.forkserver), whose own lives in a
sandbox among what students have written; whatever reads what a student has written (reading_process: the grader, pages
of feedback) and the board's replays (games.replays), which take Python's.
"""
