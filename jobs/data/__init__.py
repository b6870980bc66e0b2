"""Registered datasets and the artifacts of jobs. A version of a dataset is validated once and never changes after that.

versions         the rows of datasets: register, list, look up, remove
resolving        turns a submitted spec into the stored one, with the dataset's version and options in it
validation       which host validates a new version, and the result
uploads          archives that arrive in pieces
artifacts        the rows about the artifacts of jobs
artifact_files   the artifacts as files
"""
