"""Training jobs: their specs, states and rows, and the rules that keep these consistent.

The lowest layer: `api`, `worker`, `trainer` and `hora` import this package and never each other.
"""
