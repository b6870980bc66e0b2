"""Samples the GPUs, the ranks and the host once a second."""
