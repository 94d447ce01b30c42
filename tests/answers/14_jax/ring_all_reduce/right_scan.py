# Right: scans that carry only the chunk that travels, and put the chunks into order at the end.
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    n, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if piece.size % n:
        raise ValueError(f"expected a multiple of {n} elements, got {piece.size}")
    # Turned so that my own chunk is first: then the chunks of every step have the same place on all devices.
    mine = jnp.roll(piece.reshape(n, -1), -me, axis=0)
    ring = [(i, (i + 1) % n) for i in range(n)]

    def grow(travels: jax.Array, own: jax.Array) -> tuple[jax.Array, None]:
        return own + lax.ppermute(travels, axis_name, ring), None

    def spread(travels: jax.Array, _: Any) -> tuple[jax.Array, jax.Array]:
        arrived = lax.ppermute(travels, axis_name, ring)
        return arrived, arrived

    complete, _ = lax.scan(grow, mine[0], mine[:0:-1])  # chunk me + 1 at the end
    _, others = lax.scan(spread, complete, None, length=n - 1)  # chunks me, me - 1, …
    together = jnp.concatenate([complete[None], others])
    return jnp.roll(together[::-1], me + 2, axis=0).reshape(piece.shape)
