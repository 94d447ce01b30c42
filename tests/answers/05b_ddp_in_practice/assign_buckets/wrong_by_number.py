# Wrong: as many parameters in each bucket, whatever their size. Loses all marks.
# Told: expected [[4, 3], [2, 1], [0]]
def assign_buckets(nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int) -> list[list[int]]:
    backwards = list(reversed(range(len(nbytes))))
    per_bucket = max(1, bucket_bytes // max(nbytes, default=1))
    return [backwards[start : start + per_bucket] for start in range(0, len(backwards), per_bucket)]
