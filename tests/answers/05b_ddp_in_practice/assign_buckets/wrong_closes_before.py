# Wrong: closes a bucket before it would exceed its limit. Loses all marks.
# Told: put the parameter that reaches the limit in
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    buckets, bucket, held = [], [], 0
    for index in reversed(range(len(nbytes))):
        limit = bucket_bytes if buckets else first_bucket_bytes
        if bucket and held + nbytes[index] > limit:
            buckets.append(bucket)
            bucket, held = [], 0
        bucket.append(index)
        held += nbytes[index]
    return buckets + [bucket] if bucket else buckets
