"""The text of an article in its parts. What is wrong in a chart or a table is named with its line."""

from contextlib import suppress

import pytest

from jobs.insight.articles.blocks import MOST_FIGURES, blocks_of
from jobs.insight.articles.figures import filter_of
from jobs.lifecycle.listing import JobFilter
from jobs.model.problems import InvalidSpec
from jobs.model.states import Status
from jobs.model.where import Comparison, Where
from jobs.views.articles import MOST_CHARACTERS, ChartBlock, ProseBlock, Runs, TableBlock

ARTICLE = """\
# Which batch?

```python
x = 1
```

```hora
chart: val_accuracy, val_loss
study: 7m2k0q9d4v1s
group: batch
```
Between.
~~~ hora
table: name, label.team, spec.optimizer.name, metrics.val_accuracy
filter: status=succeeded,failed&label=team:vision
limit: 5
title: The runs: a few
~~~

``` hora
chart: loss
jobs: 1a, 2b
axis: time
```
"""


def test_a_text_is_prose_charts_and_tables() -> None:
    assert blocks_of(ARTICLE) == [
        ProseBlock(text="# Which batch?\n\n```python\nx = 1\n```"),
        ChartBlock(
            metrics=["val_accuracy", "val_loss"], runs=Runs(study="7m2k0q9d4v1s", limit=20), axis="epoch",
            group="batch", title=None,
        ),
        ProseBlock(text="Between."),
        TableBlock(
            columns=["name", "label.team", "spec.optimizer.name", "metrics.val_accuracy"],
            runs=Runs(filter="status=succeeded,failed&label=team:vision", limit=5),
            title="The runs: a few",
        ),
        ChartBlock(metrics=["loss"], runs=Runs(jobs=["1a", "2b"], limit=20), axis="time", group=None, title=None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "    ```hora\n    chart: x\n",  # indented: code of Markdown
        "```text\n```hora\nchart: x\n```",  # inside of another block
        "````\n```hora\nchart: x\n```\n````",
        "a ```hora``` b",
    ],
)
def test_what_only_looks_like_a_block_is_prose(text: str) -> None:
    assert all(isinstance(block, ProseBlock) for block in blocks_of(text))


@pytest.mark.parametrize(
    ("block", "problems"),
    [
        ("chrt: loss", ["line 4: the first field must be `chart: METRIC` or `table: COLUMNS`; did you mean `chart`?"]),
        ("chart: loss", ["line 4: say of which jobs"]),
        ("chart: val accuracy\njobs: 1", ["line 4: `chart` must be 1 to 6 metrics"]),
        ("chart: loss\njobs: 1\ngrup: x", ["line 6: no such field `grup`; did you mean `group`?"]),
        ("chart: loss\njobs: 1\njobs: 2", ["line 6: `jobs` is there twice"]),
        ("chart: loss\njobs: ../x", ["line 5: `jobs` must be"]),
        ("chart: loss\njobs: 1\naxis: stp\nlimit: 0", ["line 7: `limit` must be", "line 6: `axis` must be one of"]),
        ("chart: loss\njobs: 1\naxis: time\ngroup: gpus", ["line 6: `axis` must be one of", "with `group`"]),
        ("table: owne\njobs: 1", ["line 4: `table` must be", "did you mean `owner`?"]),
        ("table: name\njobs: 1\naxis: step", ["line 6: no such field `axis`; a table has"]),
        ("table: name\nfilter: statu=failed", ["line 5: `filter` has no `statu`; did you mean `status`?"]),
        ("table: name\nfilter: label=bad", ["line 5: write a label as key:value"]),
        ("table: name\nfilter: where=gpus == 2", ["line 5: after `gpus` comes `==`"]),
        (f"table: name\nfilter: {'name=x&' * 50}", ["line 5: `filter` must have parts"]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(block: str, problems: list[str]) -> None:
    with pytest.raises(InvalidSpec) as raised:
        blocks_of(f"A\n\n```hora\n{block}\n```\nB")
    text = str(raised.value)
    assert all(problem in text for problem in problems), text
    assert {problem.field for problem in raised.value.problems} == {"text"}


def test_an_article_has_a_bounded_number_of_figures() -> None:
    figure = "```hora\nchart: loss\njobs: 1\n```\n"
    assert len(blocks_of(figure * MOST_FIGURES)) == MOST_FIGURES
    with pytest.raises(InvalidSpec, match=f"an article may have {MOST_FIGURES}"):
        blocks_of(figure * (MOST_FIGURES + 1))


@pytest.mark.parametrize("piece", ["`", "```\n", "```hora\n", "a:b\n", "[", "\u2028", "&"])
def test_any_text_is_read_or_refused(piece: str) -> None:
    text = (piece * MOST_CHARACTERS)[:MOST_CHARACTERS]
    for whole in (text, f"```hora\n{text}", f"```hora\ntable: name\nfilter: {text}"):
        with suppress(InvalidSpec):
            assert blocks_of(whole) or not whole.strip()


def test_a_filter_means_what_it_means_for_the_list_of_jobs() -> None:
    text = "status=succeeded,failed&label=team:a%26b&label=x:&owner=alice&search=lenet+5&where=spec.batch_size>=64"
    assert filter_of(text) == JobFilter(
        statuses=frozenset({Status.SUCCEEDED, Status.FAILED}),
        labels=(("team", "a&b"), ("x", "")),
        owner="alice",
        search="lenet 5",
        where=(Where((Comparison("spec.batch_size", ">=", "64"),), "spec.batch_size>=64"),),
    )
