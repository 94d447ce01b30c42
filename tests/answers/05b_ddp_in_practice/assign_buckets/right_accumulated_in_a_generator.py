# Right: a generator of buckets over an iterator of limits; what is yielded is ranges.
import itertools


def assign_buckets(nbytes, bucket_bytes, first_bucket_bytes):
    def buckets():
        stop, limits = len(nbytes), itertools.chain([first_bucket_bytes], itertools.repeat(bucket_bytes))
        while stop:
            limit, start, held = next(limits), stop, 0
            while start and held < limit:
                start -= 1
                held += nbytes[start]
            yield list(range(stop - 1, start - 1, -1))
            stop = start

    return [*buckets()]
