"""A ring all-reduce in JAX: `distlib.collectives.ring` once more, with `ppermute` in place of `exchange`.

Each device sends one chunk to the next and gets one from the previous, 2(N−1) times:

    device 0 ──► device 1 ──► device 2 ──► device 3 ──► device 0

In the first N−1 steps it adds what it gets (reduce-scatter), in the last N−1 it copies it (all-gather). Sent by each:
2(N−1)/N · S bytes, as `distlib.network.traffic.ring_all_reduce` says.

P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel Distrib.
Comput. 69(2), 2009. `ppermute`: https://docs.jax.dev/en/latest/_autosummary/jax.lax.ppermute.html
"""

from __future__ import annotations

import jax
from jax import lax


def ring_all_reduce(piece: jax.Array, axis_name: str, *, unroll: bool = True) -> jax.Array:
    """The sum over all devices of a mesh axis. Call it under `shard_map`, `pmap` or `vmap`.

    Args:
        piece: this device's tensor; the same shape on each.
        axis_name: of the devices' axis.
        unroll: write the 2(N−1) steps one after another into the program; else two loops.

    Returns:
        A new array of the same shape.

    Raises:
        ValueError: the devices do not divide the number of elements.
    """
    devices = lax.axis_size(axis_name)
    if piece.size % devices:
        raise ValueError(f"expected a number of elements that {devices} devices divide, got {piece.size}")
    me = lax.axis_index(axis_name)
    to_next = [(device, (device + 1) % devices) for device in range(devices)]

    def add_step(step: jax.Array, chunks: jax.Array) -> jax.Array:
        incoming = lax.ppermute(chunks[(me - step - 1) % devices], axis_name, to_next)
        return chunks.at[(me - step - 2) % devices].add(incoming)

    def copy_step(step: jax.Array, chunks: jax.Array) -> jax.Array:
        incoming = lax.ppermute(chunks[(me - step) % devices], axis_name, to_next)
        return chunks.at[(me - step - 1) % devices].set(incoming)

    chunks = piece.reshape(devices, -1)
    chunks = lax.fori_loop(0, devices - 1, add_step, chunks, unroll=unroll)
    return lax.fori_loop(0, devices - 1, copy_step, chunks, unroll=unroll).reshape(piece.shape)
