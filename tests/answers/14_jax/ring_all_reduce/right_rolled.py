# Right: chunks rolled by the device's place, so that all indices are plain numbers.
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    n = lax.axis_size(axis_name)
    if piece.size % n:
        raise ValueError(f"{piece.size} elements cannot be cut into {n} chunks")
    if n == 1:
        return piece
    me = lax.axis_index(axis_name)
    to_next = [(i, (i + 1) % n) for i in range(n)]
    mine = list(jnp.roll(piece.reshape(n, -1), -me, axis=0))  # mine[k] is chunk (me + k) % n
    for step in range(n - 1):
        got = lax.ppermute(mine[-step % n], axis_name, to_next)  # my neighbor's k is my k - 1
        mine[(-step - 1) % n] = mine[(-step - 1) % n] + got
    for step in range(n - 1):
        mine[-step % n] = lax.ppermute(mine[(1 - step) % n], axis_name, to_next)
    return jnp.roll(jnp.stack(mine), me, axis=0).reshape(piece.shape)
