"""Slurm as a place for attempts: its commands, and the allocation of each attempt."""
