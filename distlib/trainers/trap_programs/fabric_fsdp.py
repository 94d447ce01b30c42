"""torch's `fully_shard` runs on CPUs, over gloo, as lesson 11 shows. Does Fabric's strategy "fsdp"?"""

from lightning.fabric import Fabric

from distlib.trainers.same_task import WideClassifier

fabric = Fabric(accelerator="cpu", devices=2, strategy="fsdp")
fabric.launch()
model = fabric.setup(WideClassifier())
print("wrapped")
