"""Trains one spec inside a job of Slurm, with no service: no API, database, broker or worker."""
