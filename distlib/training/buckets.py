"""How tensors are put together into buckets that share one all-reduce. Pure: no communication, no state.

parameters       0: 40 B    1: 10 B    2: 30 B    3: 20 B    4: 50 B        in the order of registration
buckets          └── [1, 0]: 50 B ──┘  └── [3, 2]: 50 B ──┘  [4]: 50 B      from the last one to the first
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from distlib.arguments import check_integer, checked, described


@checked
def assign_buckets(
    nbytes: Sequence[int],
    bucket_bytes: int,
    first_bucket_bytes: int | None = None,
    kinds: Sequence[Hashable] | None = None,
) -> list[list[int]]:
    """Decide which parameters share an all-reduce: buckets of indices, from the last parameter to the first.

    The last layers are the first to have gradients, so the order of registration, reversed, is about the order in
    which gradients appear. A bucket is full as soon as it holds at least its limit. A smaller first bucket lets the
    communication begin early.

        nbytes 40, 10, 30, 20, 50   bucket_bytes=50   first_bucket_bytes=20   ──►   [4]  [3, 2]  [1, 0]

    Args:
        nbytes: the size of each parameter, in the order of registration.
        bucket_bytes: the limit of a bucket, at least 1.
        first_bucket_bytes: the limit of the first one; None: the same as for the others.
        kinds: of each parameter, such as its dtype; a bucket holds one kind only. None: all may be mixed.

    Raises:
        ValueError: a limit below 1, or not as many `kinds` as sizes.

    Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13(12), 2020,
    section 3.2.3 (https://arxiv.org/abs/2006.15704).
    """
    if not isinstance(nbytes, Sequence):
        raise TypeError(f"assign_buckets expected a list of sizes in bytes, got {described(nbytes)}")
    for index, size in enumerate(nbytes):
        check_integer("assign_buckets", f"nbytes[{index}]", size)
    first_limit = bucket_bytes if first_bucket_bytes is None else first_bucket_bytes
    if bucket_bytes < 1 or first_limit < 1:
        raise ValueError(f"expected buckets of at least 1 byte, got {bucket_bytes} and first {first_limit}")
    if kinds is not None and len(kinds) != len(nbytes):
        raise ValueError(f"expected a kind for each of the {len(nbytes)} sizes, got {len(kinds)}")
    buckets: list[list[int]] = []
    filling: dict[Hashable, list[int]] = {}  # the bucket of each kind that is not full yet
    for index in reversed(range(len(nbytes))):
        kind = kinds[index] if kinds is not None else None
        bucket = filling.setdefault(kind, [])
        if not bucket:
            buckets.append(bucket)
        bucket.append(index)
        limit = first_limit if bucket is buckets[0] else bucket_bytes
        if sum(nbytes[i] for i in bucket) >= limit:
            del filling[kind]
    return buckets
