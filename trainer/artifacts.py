"""What a job leaves at its end: its network and weights, its class names, its vocabulary. Called by the session.

Written by rank 0, each file whole or not at all. `trainer.event_files` has those that grow with the run.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import h5py
import keras

from trainer.checkpoint import atomic_write
from trainer.data.texts import VOCABULARY_ATTRIBUTE, digest_of, file_of
from trainer.errors import why_no_space


def save_network(model: keras.Model, folder: Path, vocabulary: Sequence[str] = ()) -> None:
    """Write model.weights.h5, and model.keras, which Keras loads without anything of ours.

    Keras cannot save every external network. Then only the weights are written. They say which vocabulary they are for.
    """
    with atomic_write(folder / "model.weights.h5") as temporary:
        model.save_weights(temporary)
        if vocabulary:
            with h5py.File(temporary, "r+") as file:
                file.attrs[VOCABULARY_ATTRIBUTE] = digest_of(vocabulary)
    try:
        with atomic_write(folder / "model.keras") as temporary:
            model.save(temporary)
    except (NotImplementedError, TypeError, ValueError) as error:
        if why_no_space(error):
            raise
        print(f"warning: there is no model.keras, because Keras cannot save this network: {error}", flush=True)


def save_classes(classes: Sequence[str], folder: Path) -> None:
    """Write classes.json: the names of the classes, in the order of the network's outputs."""
    with atomic_write(folder / "classes.json") as temporary:
        temporary.write_text(json.dumps(classes, ensure_ascii=False, indent=1) + "\n", "utf-8")


def save_vocabulary(vocabulary: Sequence[str], folder: Path) -> None:
    """Write vocabulary.txt: one word a line. The number of a word is its line, counted from 0."""
    with atomic_write(folder / "vocabulary.txt") as temporary:
        temporary.write_bytes(file_of(vocabulary))
