# Right: pmap, which cuts along a new first axis.
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    def on_device(params, inputs, targets):
        loss, gradient = jax.value_and_grad(loss_of)(params, inputs, targets)
        loss, gradient = lax.pmean((loss, gradient), "devices")
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    devices = list(mesh.devices.flat)
    mapped = jax.pmap(on_device, "devices", devices=devices, in_axes=(None, 0, 0), out_axes=None)

    def step(params, inputs, targets):
        parts = [array.reshape(len(devices), -1, *array.shape[1:]) for array in (inputs, targets)]
        return mapped(params, *parts)

    return step
