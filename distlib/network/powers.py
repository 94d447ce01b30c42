"""Numbers of ranks and powers of two: what trees, halving and doubling count with."""

from __future__ import annotations


def powers_of_two_below(world_size: int) -> list[int]:
    """1, 2, 4, …: the powers of two that are less than `world_size`. There are ⌈log₂ world_size⌉ of them."""
    return [1 << step for step in range((world_size - 1).bit_length())]


def is_power_of_two(world_size: int) -> bool:
    """Whether `world_size` is 1, 2, 4, 8, …"""
    return world_size & (world_size - 1) == 0


def beyond_power_of_two(world_size: int) -> tuple[int, int]:
    """How many ranks there are beyond the largest power of two, and that power: 6 ranks are 2 beyond 4."""
    power = 1 << (world_size.bit_length() - 1)
    return world_size - power, power
