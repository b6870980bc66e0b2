"""The networks that a spec can name, their first weights, and the optimizers. Used by the session.

    build_model             the network for the data at hand, equal on every rank
    load_initial_weights    what `model.weights` names, on rank 0
    build_optimizer         with all its variables
    moving_statistics       the variables that a step changes without a gradient

`zoo` lists the networks of this package, made in `small` and `applications`; `external` builds those of other packages.
"""

from trainer.models.building import build_model, moving_statistics
from trainer.models.optimizers import build_optimizer
from trainer.models.weights import load_initial_weights

__all__ = ["build_model", "build_optimizer", "load_initial_weights", "moving_statistics"]
