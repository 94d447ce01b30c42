# Wrong: lets the library do it. Loses all marks.
# Told: it calls distlib.training.buckets.assign_buckets
# Told by the judge: the library's assign_buckets is not there
from distlib.training.buckets import assign_buckets as theirs


def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    return theirs(nbytes, bucket_bytes, first_bucket_bytes)
