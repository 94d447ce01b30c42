# Right: a generator of tuples inside.
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    def filled():
        bucket, limit = (), first_bucket_bytes
        for index, size in sorted(enumerate(nbytes), reverse=True):
            bucket += (index,)
            if sum(nbytes[i] for i in bucket) >= limit:
                yield bucket
                bucket, limit = (), bucket_bytes
        if bucket:
            yield bucket

    return list(filled())
