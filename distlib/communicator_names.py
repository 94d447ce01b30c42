"""What people write that a communicator has not: collectives are functions, and other libraries have other words.

comm.all_reduce(tensor)      torch.distributed's users and mpi4py's write it so; here it is all_reduce(comm, tensor)
comm.Get_rank()              comm.rank
world.run(f(world))          a World is no communicator: world.run(f)
"""

from __future__ import annotations

from distlib.arguments import short

_MEMBERS = "rank, world_size, device, send, recv, isend, irecv, exchange, start, barrier, split, sleep and time"
_CALLS = {  # how each collective is called
    "all_reduce": "all_reduce(comm, tensor)",
    "broadcast": "broadcast(comm, tensor, root=0)",
    "reduce_scatter": "reduce_scatter(comm, tensor)",
    "all_gather": "all_gather(comm, tensor)",
    "all_to_all": "all_to_all(comm, outputs, inputs)",
    "scatter": "scatter(comm, tensor, root=0)",
    "gather": "gather(comm, tensor, root=0)",
    "reduce": "reduce(comm, tensor, root=0)",
}
_SAME_AS = {  # of torch.distributed and mpi4py
    "all_reduce_coalesced": "all_reduce",
    "allreduce": "all_reduce",
    "bcast": "broadcast",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_gather_into_tensor": "all_gather",
    "all_gather_coalesced": "all_gather",
    "all_gather_single": "all_gather",
    "allgather": "all_gather",
    "all_to_all_single": "all_to_all",
    "alltoall": "all_to_all",
}
_OUR_WORDS = {
    "get_rank": "comm.rank",
    "get_world_size": "comm.world_size",
    "get_size": "comm.world_size",
    "new_group": "comm.split(color)",
    "receive": "comm.recv(tensor, src)",
    "sendrecv": "comm.exchange(outgoing, dst, incoming, src)",
    "batch_isend_irecv": "comm.exchange(outgoing, dst, incoming, src), or comm.isend and comm.irecv",
    "send": "comm.send(tensor, dst)",
    "recv": "comm.recv(tensor, src)",
    "isend": "comm.isend(tensor, dst)",
    "irecv": "comm.irecv(tensor, src)",
    "barrier": "comm.barrier()",
    "split": "comm.split(color)",
    "monitored_barrier": "comm.barrier()",
}
_OBJECTS = "messages are tensors here: make one with torch.tensor(…), and send that"
_OF_A_RANK = frozenset({"rank", "size", "device", "send", "recv", "isend", "irecv", "exchange", "start", "barrier"})
_ALSO_OF_A_RANK = frozenset({"split", "within", "sleep", "time", "call"})


def not_of_a_communicator(name: str) -> AttributeError:
    """The error of a communicator that is asked for something it has not."""
    advice = _advice(name)
    if advice is None:
        return AttributeError(f"a communicator has no {short(name)}: it has {_MEMBERS}")
    return AttributeError(f"a communicator has no {short(name)}: {advice}")


def not_of_a_world(kind: str, name: str, world: object) -> AttributeError:
    """The error of a world of class `kind` that is asked for something it has not."""
    if name in _OF_A_RANK | _ALSO_OF_A_RANK or _function_of(name.lower()):
        return AttributeError(
            f"a {kind} has no {short(name)}: it calls your function on each rank, with that rank's communicator, which "
            f"is where to look. Write world.run(function), and not world.run(function(world))"
        )
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=world)


def _advice(name: str) -> str | None:
    """What to write instead; None if nothing is known."""
    if name.endswith(("_object", "_object_list")):
        return _OBJECTS
    function = _function_of(name.lower())
    if function is not None:
        ours = name if name == function or name.endswith(f"_{function}") else function
        source = "distlib" if ours == function else "distlib.collectives"
        call = _CALLS[function].replace(function, ours, 1)
        return f"{ours} is a function. Write {call}, with: from {source} import {ours}"
    return _OUR_WORDS.get(name.lower()) and f"write {_OUR_WORDS[name.lower()]}"


def _function_of(name: str) -> str | None:
    """The collective that a name means; also of ring_all_reduce, one of its algorithms."""
    if name in _SAME_AS:
        return _SAME_AS[name]
    return next((each for each in _CALLS if name == each or name.endswith(f"_{each}")), None)
