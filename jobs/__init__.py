"""What a training job is: its spec, its states, its rows, and the rules that keep them true.

The ground floor: `api`, `worker`, `trainer` and `hora` stand on this package and never on each other.
"""
