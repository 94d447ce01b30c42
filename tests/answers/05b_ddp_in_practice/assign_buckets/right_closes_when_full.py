# Right: closes a bucket as soon as it is full, and the last one at the end.
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
    return buckets
