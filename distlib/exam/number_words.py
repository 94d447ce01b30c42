"""Numbers as a question shows them."""

from __future__ import annotations

import random

from distlib.network import Cluster, Link

_DIGITS = 4


def shown(number: object) -> str:
    """ "1,234,567", "0.3333", "0, 4, 8": whole numbers whole, others to four digits."""
    if isinstance(number, list):
        return ", ".join(map(shown, number))
    if isinstance(number, int):
        return f"{number:,}"
    if isinstance(number, float):
        return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.{_DIGITS}g}"
    return str(number)


def drawn_link(draw: random.Random) -> Link:
    """A link with a latency of some µs and a bandwidth of some GB/s."""
    return Link(draw.choice((2, 5, 10, 20)) * 1e-6, draw.choice((1, 2, 5, 10, 25)) * 1e9)


def link_words(link: Link) -> str:
    """ "a latency of 5 µs and a bandwidth of 10 GB/s"."""
    return f"a latency of {link.latency * 1e6:g} µs and a bandwidth of {link.bandwidth / 1e9:g} GB/s"


def one_rank_per_node(ranks: int, link: Link) -> Cluster:
    """A cluster in which all messages take the same link."""
    return Cluster(ranks, 1, link, link)
