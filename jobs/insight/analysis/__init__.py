"""What a job's steps and samples say: why it is slow, where its GPU-seconds went, whether it learns.

`analyse.analysis_of` is the one entrance; `shape` is what it answers. All figures come from rows; every finding carries
those that it rests on.
"""
