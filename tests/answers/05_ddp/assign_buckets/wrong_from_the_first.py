# Wrong: begins with the first parameter. Loses all marks.
# Told: begin with the last parameter
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    buckets, bucket, held = [], [], 0
    for index in range(len(nbytes)):
        bucket.append(index)
        held += nbytes[index]
        if held >= (bucket_bytes if buckets else first_bucket_bytes):
            buckets.append(bucket)
            bucket, held = [], 0
    if bucket:
        buckets.append(bucket)
    return buckets
