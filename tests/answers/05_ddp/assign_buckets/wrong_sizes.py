# Wrong: returns sizes instead of indices. Loses all marks.
# Told: expected [[4, 3], [2, 1], [0]]
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    buckets, bucket, held = [], [], 0
    for index in reversed(range(len(nbytes))):
        bucket.append(nbytes[index])
        held += nbytes[index]
        if held >= (bucket_bytes if buckets else first_bucket_bytes):
            buckets.append(bucket)
            bucket, held = [], 0
    if bucket:
        buckets.append(bucket)
    return buckets
