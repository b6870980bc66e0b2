"""Registered datasets, each version validated once and never changed after that; and what jobs leave.

versions         the rows of datasets: register, list, look up, remove
resolving        from a spec as submitted to the spec that is stored, with the version and its options in it
validation       who looks at a new version, and what comes of it
uploads          archives that come in pieces
artifacts        what the database knows of the artifacts of jobs
artifact_files   the artifacts as files
"""
