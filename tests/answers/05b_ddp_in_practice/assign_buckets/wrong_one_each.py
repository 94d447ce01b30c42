# Wrong: a bucket for each parameter. Loses all marks.
# Told: each parameter has a bucket of its own
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    return [[index] for index in reversed(range(len(nbytes)))]
