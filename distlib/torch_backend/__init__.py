"""torch.distributed on the ranks of this course: a process group of torch whose messages are a `Communicator`'s.

    torch's DistributedDataParallel, fully_shard, DTensor, pipelining        unchanged
    torch.distributed: all_reduce, all_gather_into_tensor, isend, …          unchanged
      │  asks the process group
      ▼
    torch_group      DistlibGroup: one method for each call that torch makes of a process group
    torch_calls      what each of them does, built from send and receive as in distlib.collectives
    works            what a call returns before it is over: torch's Work, and its Future
      │
      ▼
    Communicator     of a World, of a SimulatedWorld

default_group      torch's default group over a communicator, whichever world that is of
enter              torch_distributed(comm): torch's default group over the ranks of a communicator, for one block
arguments          torch's options, read; and the text by which the ranks compare their calls
whole_program      run_program: a program with an init_process_group of its own, unchanged, as torchrun starts it
ranks_magic        %%ranks 4: the text of a cell as such a program
monitored          monitored_barrier, which torch itself offers for gloo alone
groups_of_threads  several ranks in one process, each with process groups of its own
computing          charge_computing: in virtual time, each operation takes the time of its FLOPs
streams            the streams of a simulated GPU, for tensors of shapes alone

Because every message is the course's, it stands in the trace, it is priced, and a mistake is named with rank and line.
"""
