# Wrong: sorts the indices of each bucket. Loses all marks.
# Told: inside a bucket, too, the last parameter comes first
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    buckets, bucket, held = [], [], 0
    for index in reversed(range(len(nbytes))):
        bucket.append(index)
        held += nbytes[index]
        if held >= (bucket_bytes if buckets else first_bucket_bytes):
            buckets.append(bucket)
            bucket, held = [], 0
    if bucket:
        buckets.append(bucket)
    return [sorted(bucket) for bucket in buckets]
