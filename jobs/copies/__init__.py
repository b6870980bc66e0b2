"""Copies of what jobs leave, in the store (`HORA_STORE`), which outlives every host.

`store` reads and writes files there. `manifests` says which files make a copy, and where they lie. `resuming` says
from which checkpoints a job may continue. `marks` notices a store that was emptied or is not mounted.
"""
