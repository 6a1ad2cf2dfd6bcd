"""Loaded by every Python process that has this folder on its path: engines and workers included."""

import torchvision_cpu_shim

torchvision_cpu_shim.install()
