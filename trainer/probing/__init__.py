"""The parts of a batch probe; `trainer.probe` puts them together.

knee        where throughput stops growing: pure
proposal    the batch and the rate to train with, and why: pure
measuring   the time of a step with one batch, on all ranks
memory      the peak memory of a rank, and the free memory of its host
"""
