"""Registered datasets: names with versions, each validated once and never changed after that.

names        what a spec's `dataset.source` may name
versions     the rows: register, list, look up, remove, and what a job keeps of the version that it trains on
resolving    from a spec as submitted to the spec that is stored, with the version and its options in it
validating   who looks at a new version, and what comes of it
uploads      archives that come in pieces
"""
