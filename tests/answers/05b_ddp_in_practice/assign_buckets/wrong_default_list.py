# Wrong: the list of buckets is made once, as a default argument. Loses all marks.
# Told: right on its own, but not after other calls
def assign_buckets(nbytes, bucket_bytes, first_bucket_bytes, buckets=[]):
    held = limit = 0
    for index in reversed(range(len(nbytes))):
        if held >= limit:
            limit = bucket_bytes if buckets else first_bucket_bytes
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += nbytes[index]
    return buckets
