# Right: one expression; what it returns has memory of its own.
scatter = lambda comm, tensor, root=0: [  # noqa: E731
    (
        [comm.send(part, k) for k, part in enumerate(tensor.flatten().tensor_split(comm.world_size)) if k != root],
        tensor.flatten().tensor_split(comm.world_size)[root].clone(),
    )
    if comm.rank == root
    else (lambda mine: (comm.recv(mine, root), mine))(
        tensor.new_empty(len(tensor.flatten().tensor_split(comm.world_size)[comm.rank]))
    )
][0][1]
