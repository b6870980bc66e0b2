"""Layers of a file are matched with those of a network for certain, or not at all."""

import pytest

from trainer.models.layer_matching import DoesNotFit, Match, WantedLayer, match
from trainer.models.weight_files import SavedLayer

CONV, WIDE, NORM = (3, 3, 8, 8), (1, 1, 8, 16), (8,)


def keras_3(kind: str, number: int, name: str, *shapes: tuple[int, ...], network: str = "layers") -> SavedLayer:
    group = f"/{network}/{kind}_{number}/vars" if number else f"/{network}/{kind}/vars"
    paths = tuple(f"{group}/{array}" for array in range(len(shapes)))
    return SavedLayer(name, kind, network, (("layers", 0), (kind, number)), paths, shapes)


def keras_2(position: int, name: str, *shapes: tuple[int, ...]) -> SavedLayer:
    paths = tuple(f"/{name}/{array}:0" for array in range(len(shapes)))
    return SavedLayer(name, "", "/", (("", position), ("", 0)), paths, shapes)


# Two branches of equal shape, as at the start of ResNet-50, and what is behind them.
NETWORK = [
    WantedLayer(keras_3("conv2d", 0, "stem", CONV), 0, depth=9),
    WantedLayer(keras_3("conv2d", 1, "shortcut", CONV), 1, depth=8),
    WantedLayer(keras_3("conv2d", 2, "main", CONV), 2, depth=8),
    WantedLayer(keras_3("batch_normalization", 0, "norm", NORM, NORM), 3, depth=7),
    WantedLayer(keras_3("conv2d", 3, "last", WIDE), 4, depth=6),
]
CHAIN = [
    WantedLayer(keras_3("conv2d", 4, "conv2d_4", CONV), 0, depth=3),
    WantedLayer(keras_3("conv2d", 5, "conv2d_5", CONV), 1, depth=2),
]


def names(found: Match, wanted: list[WantedLayer]) -> list[str]:
    return [found.layers[layer.saved.group].name for layer in wanted]


def test_names_win_over_places() -> None:
    swapped = [keras_3("conv2d", 1, "main", CONV), keras_3("conv2d", 2, "shortcut", CONV)]
    file = [NETWORK[0].saved, *swapped, *(layer.saved for layer in NETWORK[3:])]
    found = match(NETWORK, file)
    assert names(found, NETWORK) == [layer.name for layer in NETWORK]
    assert found.ways == {"by name": 5}


def test_without_names_the_numbers_of_each_class_decide() -> None:
    file = [keras_3(layer.saved.kind, layer.saved.place[-1][1], "", *layer.shapes) for layer in reversed(NETWORK)]
    found = match(NETWORK, file)
    assert [found.layers[layer.saved.group].group for layer in NETWORK] == [layer.saved.group for layer in NETWORK]
    assert found.ways == {"by order": 5}


@pytest.mark.parametrize(
    "file",
    [
        [keras_3(layer.saved.kind, layer.saved.place[-1][1], f"x{layer.number}", *layer.shapes) for layer in NETWORK],
        [keras_2(layer.number, f"x{layer.number}", *layer.shapes) for layer in NETWORK],
    ],
    ids=["keras 3", "keras 2"],
)
def test_unknown_names_on_branches_of_equal_shape_are_refused(file: list[SavedLayer]) -> None:
    with pytest.raises(DoesNotFit, match="such as x1, and their order does not say which layer is shortcut and which"):
        match(NETWORK, file)


@pytest.mark.parametrize("given", [("b", "a"), ("conv2d_5", "conv2d_4")], ids=["unknown", "automatic"])
def test_names_that_say_nothing_are_matched_by_order_in_a_chain(given: tuple[str, str]) -> None:
    found = match(CHAIN, [keras_2(0, given[0], CONV), keras_2(2, given[1], CONV)])
    assert names(found, CHAIN) == list(given)
    assert found.ways == {"by order": 2}


def test_parts_of_a_layer_are_told_apart_by_their_names() -> None:
    """Keras 3 sorts the parts of an attention by name, and Keras 2 lists them as they were made."""
    parts = ("key", "query", "value")
    wanted = [
        WantedLayer(keras_3(f"attention/{part}_dense", 0, f"attention/{part}", CONV), 0, depth=1) for part in parts
    ]
    file = [keras_2(n, f"model/attention_7/{part}", CONV) for n, part in enumerate(("query", "key", "value"))]
    assert names(match(wanted, file), wanted) == [f"model/attention_7/{part}" for part in parts]


@pytest.mark.parametrize(
    "more",
    [
        [keras_2(4, "extra", WIDE), keras_2(5, "last", WIDE)],
        [keras_3("conv2d", 3, "extra", WIDE), keras_3("conv2d", 4, "last", WIDE)],
    ],
    ids=["keras 2", "keras 3"],
)
def test_weights_of_a_larger_network_with_the_same_names_are_refused(more: list[SavedLayer]) -> None:
    """All layers of ResNet-50 are in ResNet-101 too, with the same names and shapes."""
    in_front = [layer.saved if more[0].kind else keras_2(layer.number, layer.name, *layer.shapes) for layer in NETWORK]
    with pytest.raises(DoesNotFit, match=r"the network has no layer extra, \(1, 1, 8, 16\)"):
        match(NETWORK, [*in_front[:4], *more])


def test_layers_that_are_there_twice_are_refused() -> None:
    twice = [*(layer.saved for layer in NETWORK[:4]), *(keras_3("conv2d", n, "last", WIDE) for n in (4, 5))]
    with pytest.raises(DoesNotFit, match="it has 2 layers named last"):
        match(NETWORK, twice)
    with pytest.raises(DoesNotFit, match=r"it has 3 layers like conv2d_4, \(3, 3, 8, 8\), and the network has 2"):
        match(CHAIN, [keras_2(number, f"x{number}", CONV) for number in range(3)])


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ([], r"layer stem, \(3, 3, 8, 8\), is not in it$"),
        ([keras_2(0, "stem", WIDE)], r"layer stem, \(3, 3, 8, 8\), has the shape \(1, 1, 8, 16\) there$"),
        ([keras_2(0, "stem", CONV, NORM)], r"layer stem has 2 arrays there, not 1$"),
        ([keras_2(0, "block5_conv3", WIDE)], "; its layers have the names of VGG16$"),
        ([keras_2(0, "block_16_project", WIDE)], "; its layers have the names of MobileNetV2$"),
    ],
)
def test_what_does_not_fit_is_named(file: list[SavedLayer], sentence: str) -> None:
    with pytest.raises(DoesNotFit, match=sentence):
        match(NETWORK, file)
