# Wrong: ignores the limit of the first bucket. Loses all marks.
# Told: the first bucket has a limit of its own
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    buckets, bucket, held = [], [], 0
    for index in reversed(range(len(nbytes))):
        bucket.append(index)
        held += nbytes[index]
        if held >= bucket_bytes:
            buckets.append(bucket)
            bucket, held = [], 0
    if bucket:
        buckets.append(bucket)
    return buckets
