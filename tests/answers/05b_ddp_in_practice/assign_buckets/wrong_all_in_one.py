# Wrong: everything in one bucket. Loses all marks.
# Told: this is a single bucket
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    return [list(reversed(range(len(nbytes))))]
