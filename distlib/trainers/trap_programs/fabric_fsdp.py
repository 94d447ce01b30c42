"""FSDP runs on gloo and CPUs, as lesson 11 shows. Does Fabric let it?"""

from lightning.fabric import Fabric

from distlib.trainers.same_task import WideClassifier

fabric = Fabric(accelerator="cpu", devices=2, strategy="fsdp")
fabric.launch()
model = fabric.setup(WideClassifier())
print("wrapped")
