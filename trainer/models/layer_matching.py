"""Finds the layers of a network among those of a file. Pure; called by `weights`.

By name first: a name that somebody gave is certain. What is left has automatic names, `conv2d_7`, or those of somebody
else, and is matched by order: the nth layer of a kind and shape here is the nth one there. Keras sorts the layers of a
network by their depth, so the order is certain where layers of the same kind and shape have different depths. Parallel
branches have the same: their order depends on who built the network. Unknown names are refused there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainer.models.layer_names import is_automatic, network_of, new_name
from trainer.models.weight_files import SavedLayer, printable

_Signature = tuple[str, tuple[tuple[int, ...], ...]]


class DoesNotFit(Exception):
    """The layers of a file are not those of the network. The text says which layer, and what that may mean."""


@dataclass(frozen=True)
class WantedLayer:
    """A layer of the network: as Hora would save it, and how deep in the network it is."""

    saved: SavedLayer
    number: int  # sorts the layers as they follow each other in the network
    depth: int | None  # steps to the network's end; None: not known

    @property
    def name(self) -> str:
        """As `SavedLayer.name`."""
        return self.saved.name

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """As `SavedLayer.shapes`."""
        return self.saved.shapes


@dataclass
class Match:
    """The layers of a file by the group of the layer that each is for, how many were found how, and the others."""

    layers: dict[str, SavedLayer] = field(default_factory=dict)
    ways: Counter[str] = field(default_factory=Counter)
    others: list[SavedLayer] = field(default_factory=list)  # layers in front of the matched ones, or behind them

    def add(self, wanted: WantedLayer, layer: SavedLayer, way: str) -> None:
        """Note a pair, and how it was found."""
        self.layers[wanted.saved.group] = layer
        self.ways[way] += 1


def match(wanted: Sequence[WantedLayer], in_file: Sequence[SavedLayer]) -> Match:
    """Match all layers of a network, which are in its order. Raises `DoesNotFit`."""
    return _Matching(wanted, in_file).match()


class _Matching:
    def __init__(self, wanted: Sequence[WantedLayer], in_file: Sequence[SavedLayer]) -> None:
        self._wanted = wanted
        self._in_file = in_file
        self._kinds = {layer.saved.kind for layer in wanted}
        self._parts = {layer.name.rpartition("/")[2] for layer in wanted if "/" in layer.name}  # query, key, value
        self._has_kinds = any(layer.kind for layer in in_file)
        network = network_of(layer.name for layer in in_file)
        self._meaning = f"; its layers have the names of {network}" if network else ""

    def match(self) -> Match:
        found = self._by_place() or self._by_name()
        taken = {layer.group: layer for layer in found.layers.values()}
        others = (layer for layer in self._in_file if layer.network and layer.group not in taken)
        found.others = sorted(others, key=lambda layer: layer.place)
        for layer in found.others:
            if _is_between(layer, taken.values()):
                raise DoesNotFit(f"the network has no layer {text_of(layer)}{self._meaning}")
        return found

    def _by_place(self) -> Match | None:
        """The match if the file is laid out as Hora would, and no name in it says otherwise."""
        groups, names = {layer.group: layer for layer in self._in_file}, {layer.name for layer in self._wanted}
        found = Match()
        for layer in self._wanted:
            there = groups.get(layer.saved.group)
            if there is None or there.shapes != layer.shapes:
                return None
            same_name = there.name == layer.name
            if not same_name and self._is_given(there.name) and (there.name in names or layer.depth is not None):
                return None
            found.add(layer, there, "by name" if same_name and self._is_given(layer.name) else "by order")
        return found

    def _by_name(self) -> Match:
        """What has a given name by it, and the rest by order."""
        layers_by_name = self._layers_by_name()
        found, rest = Match(), []
        for layer in self._wanted:
            same = layers_by_name[layer.name] if self._is_given(layer.name) else []
            if not same:
                rest.append(layer)
                continue
            if len(same) > 1:
                raise DoesNotFit(f"it has {len(same)} layers named {layer.name}")
            there, way = same[0]
            if there.shapes != layer.shapes:
                raise DoesNotFit(self._difference(layer, there))
            found.add(layer, there, way)
        if self._meaning and not found.ways and self._is_given(self._wanted[0].name):
            raise DoesNotFit(self._difference(self._wanted[0], None))
        self._by_order(rest, found)
        return found

    def _layers_by_name(self) -> Mapping[str, list[tuple[SavedLayer, str]]]:
        """The layers of the file by each name that they can be asked for, and what kind of name it is."""
        layers: dict[str, list[tuple[SavedLayer, str]]] = defaultdict(list)
        for layer in self._in_file:
            parts = layer.name.split("/")
            for start in range(len(parts)):  # in a file of Keras 2 the name of an inner network may be in front
                layers["/".join(parts[start:])].append((layer, "by name"))
            if new := new_name(parts[-1]):
                layers[new].append((layer, "by former name"))
        return layers

    def _by_order(self, rest: Sequence[WantedLayer], found: Match) -> None:
        taken = {layer.group for layer in found.layers.values()}
        rest_in_file = [layer for layer in self._in_file if layer.group not in taken]
        like_in_file: dict[_Signature, list[SavedLayer]] = defaultdict(list)
        for other in sorted(rest_in_file, key=lambda other: other.place):
            like_in_file[self._signature(other)].append(other)
        for layer in rest:
            signature = self._signature(layer.saved)
            there, here = like_in_file[signature], [one for one in rest if self._signature(one.saved) == signature]
            if len(there) < len(here):
                raise DoesNotFit(self._difference(layer, _counterpart(layer, rest_in_file)))
            if len(there) > len(here):
                more = f"it has {len(there)} layers like {text_of(layer.saved)}, and the network has {len(here)}"
                raise DoesNotFit(more + self._meaning)
            counterpart = there[here.index(layer)]
            twins = [other for other in here if other is not layer and other.depth == layer.depth]
            if twins and self._is_given(counterpart.name):
                raise DoesNotFit(
                    f"it has other names, such as {printable(counterpart.name)}, and their order does not say "
                    f"which layer is {layer.name} and which is {twins[0].name}{self._meaning}"
                )
            found.add(layer, counterpart, "by order")

    def _signature(self, layer: SavedLayer) -> _Signature:
        """What layers have in common that only their order can tell apart. Files of Keras 2 say nothing of classes."""
        part = layer.name.rpartition("/")[2]
        return layer.kind if self._has_kinds else part if part in self._parts else "", layer.shapes

    def _is_given(self, name: str) -> bool:
        """Whether a person gave this name to a layer."""
        return bool(name) and not is_automatic(name, self._kinds)

    def _difference(self, layer: WantedLayer, there: SavedLayer | None) -> str:
        """Why a layer does not fit. `there` is what the file has in its place."""
        if there is None:
            return f"layer {text_of(layer.saved)}, is not in it{self._meaning}"
        for here_shape, there_shape in zip(layer.shapes, there.shapes, strict=False):
            if here_shape != there_shape:
                return f"layer {printable(layer.name)}, {here_shape}, has the shape {there_shape} there{self._meaning}"
        arrays = f"{len(there.shapes)} arrays there, not {len(layer.shapes)}"
        return f"layer {printable(layer.name)} has {arrays}{self._meaning}"


def _is_between(layer: SavedLayer, taken: Iterable[SavedLayer]) -> bool:
    """Whether a layer that the network lacks is between two that it has: then the file is of a larger network."""
    beside = [other.place for other in taken if (other.network, other.kind) == (layer.network, layer.kind)]
    return bool(beside) and min(beside) < layer.place < max(beside)


def _counterpart(layer: WantedLayer, in_file: Sequence[SavedLayer]) -> SavedLayer | None:
    """The layer of the file that has the same place, if any."""
    same = (other for other in in_file if other.group == layer.saved.group)
    similar = (other for other in in_file if (other.kind, other.place[-1]) == (layer.saved.kind, layer.saved.place[-1]))
    return next(same, None) or next(similar, None)


def text_of(layer: SavedLayer) -> str:
    """A layer in words: its name, and the shape of its first array."""
    return f"{printable(layer.name or layer.group)}, {layer.shapes[0]}"
