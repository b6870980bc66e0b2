"""Texts under a real horovodrun: as good as scikit-learn's bag of words, and equal on other ranks."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from jobs.model.records import DataOpened, Summarized
from jobs.model.states import EndReason
from tests.acceptance.ranks import Run
from tests.texts import docstrings, write_texts

C = 0.3  # the inverse strength of scikit-learn's regularization

SPEC: dict[str, Any] = {
    # All samples make one batch: with streamed data, the number of ranks decides which samples come together.
    "dataset": {"source": "docstrings", "text_length": 16, "vocabulary": 100, "samples": 64},
    "model": "bag_of_words",
    "batch_per": "global",
    "batch_size": 64,
    "epochs": 20,
    "validation_steps": 2,
    "early_stopping": None,
}


@pytest.fixture(scope="module")
def parts() -> dict[str, dict[str, str]]:
    """The texts with their labels, one half for the training."""
    texts = sorted((text, label) for text, label in docstrings().items() if len(text.split()) < 200)
    Random(1).shuffle(texts)  # noqa: S311
    half = len(texts) // 2
    return {"train": dict(texts[:half]), "test": dict(texts[half:])}


@pytest.fixture
def root(tmp_path: Path, parts: dict[str, dict[str, str]]) -> Path:
    """A data root with the texts."""
    root = tmp_path / "data"
    for part, texts in parts.items():
        write_texts(root / "docstrings" / part / "0.parquet", texts)
    return root


def run_in(folder: Path, root: Path, **fields: Any) -> Run:
    """A run of the spec with these fields."""
    spec = {**SPEC, "gpus": 1, **fields}
    return Run(folder, spec, launch={"data_roots": [str(root)]}, environment={"TMPDIR": str(folder)})


def test_a_bag_of_words_is_as_good_as_logistic_regression(
    tmp_path: Path, root: Path, parts: dict[str, dict[str, str]]
) -> None:
    samples = len(parts["train"]) * 9 // 10
    run = run_in(
        tmp_path / "job",
        root,
        dataset={"source": "docstrings", "text_length": 512, "validation": 0.001},
        model="bag_of_words",
        batch_size=256,
        epochs=50,
        steps_per_epoch=None,
        learning_rate=0.03,
        schedule="cosine",
        weight_decay=1 / (C * samples),
        checkpoint={"every_epochs": 1000},
    )
    assert run.train() == 0
    (summarized,) = run.of_job(Summarized)
    (data,) = run.of_job(DataOpened)

    vectorizer = CountVectorizer(token_pattern=r"\w+", max_features=20_000)
    counts = vectorizer.fit_transform(parts["train"])
    words = (run.folder / "artifacts/vocabulary.txt").read_text().splitlines()
    assert (data.words, sorted(words[2:])) == (len(words), sorted(vectorizer.vocabulary_))
    regression = LogisticRegression(C=C, max_iter=1000).fit(counts, list(parts["train"].values()))
    expected = regression.score(vectorizer.transform(parts["test"]), list(parts["test"].values()))
    assert summarized.summary.test_accuracy == pytest.approx(expected, abs=0.01)


def test_a_run_on_two_ranks_equals_one_on_one_rank_which_other_texts_do_not_continue(
    tmp_path: Path, root: Path, parts: dict[str, dict[str, str]]
) -> None:
    one = run_in(tmp_path / "one", root)
    assert one.train() == 0
    run = run_in(tmp_path / "job", root, gpus=2)
    assert run.train() == 0
    assert run.losses() == pytest.approx(one.losses(), rel=1e-3)
    for together, alone in zip(run.epochs(), one.epochs(), strict=True):
        assert together == pytest.approx(alone, rel=1e-3)
    files = ("artifacts/vocabulary.txt", "artifacts/classes.json")
    assert [(run.folder / file).read_bytes() for file in files] == [(one.folder / file).read_bytes() for file in files]

    texts = {f"{'new ' * 9}{text}": label for text, label in parts["train"].items()}
    write_texts(root / "docstrings" / "train" / "0.parquet", texts)
    assert one.train() != 0
    (end,) = one.exits()
    assert end.reason is EndReason.BAD_DATA
    assert "the texts have changed since this job began" in str(end.message)
