"""Exercise 11: ZeRO and FSDP."""
