"""The analysis of a job's steps and samples: why it is slow, what its GPU-seconds were spent on, whether it learns.

The only entry point is `analyse.analysis_of`. Its result is an `Analysis` of `jobs.views.analysis`. All figures come
from rows, and every finding has the figures behind it.
"""
