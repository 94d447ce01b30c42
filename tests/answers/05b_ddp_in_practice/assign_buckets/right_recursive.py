# Right: the first bucket, and then the same for the rest.
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    held = 0
    for index in reversed(range(len(nbytes))):
        held += nbytes[index]
        if held >= first_bucket_bytes or index == 0:
            bucket = list(range(index, len(nbytes)))[::-1]
            return [bucket, *assign_buckets(nbytes[:index], bucket_bytes, bucket_bytes)]
    return []
