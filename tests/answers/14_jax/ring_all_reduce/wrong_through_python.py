# Wrong: the steps are for show; the values meet in a dict of the process. Loses all marks.
# Told: no pure_callback and no io_callback
BOARD = {}


def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    to_next = [(device, (device + 1) % devices) for device in range(devices)]
    like = jax.ShapeDtypeStruct(piece.shape, piece.dtype)

    def deposit(device: Any, mine: Any) -> Any:
        BOARD[int(device)] = np.array(mine)
        return BOARD[int(device)]

    def collect(chunk: Any) -> Any:
        return sum(BOARD[device] for device in range(devices)).astype(piece.dtype)

    piece = jax.pure_callback(deposit, like, me, piece)
    chunk = piece.reshape(devices, -1)[0]
    for _ in range(2 * (devices - 1)):
        chunk = lax.ppermute(chunk, axis_name, to_next)
    return jax.pure_callback(collect, like, chunk)
