"""The parts of a batch probe; `trainer.probe` puts them together.

knee        where throughput stops growing: pure
proposal    the batch and the rate to train with, and why: pure
measuring   what a step takes with one batch, on all ranks
memory      what a rank takes at its most, and what its host has left
"""
