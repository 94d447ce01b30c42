# Wrong: takes the sizes out of the list that it was given. Loses all marks.
# Told: it has changed its argument nbytes
def assign_buckets(nbytes, bucket_bytes, first_bucket_bytes):
    buckets, held, limit = [], 0, 0
    while nbytes:
        if held >= limit:
            limit = bucket_bytes if buckets else first_bucket_bytes
            buckets.append([])
            held = 0
        held += nbytes.pop()
        buckets[-1].append(len(nbytes))
    return buckets
