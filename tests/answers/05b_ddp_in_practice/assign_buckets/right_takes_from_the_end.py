# Right: takes from the end of a list while there is one; prints.
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    left = list(range(len(nbytes)))
    buckets = []
    limit = first_bucket_bytes
    while left:
        bucket = [left.pop()]
        while left and sum(nbytes[index] for index in bucket) < limit:
            bucket.append(left.pop())
        buckets.append(bucket)
        limit = bucket_bytes
    print(len(buckets), "buckets")
    return buckets
