"""Pictures with axes: times, bytes, measurements."""
