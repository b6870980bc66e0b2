"""What `dataset.augment` may list: names of variants, and steps as objects. Pure; for `jobs.model.dataset_fields`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from jobs.model.problems import BRANCH, NAMES
from jobs.model.spec_parts import SpecPart

Variant = Literal["flip_horizontal", "flip_vertical", "rotate_90", "rotate_180", "rotate_270"]
VARIANTS: tuple[str, ...] = get_args(Variant)
QUARTER_TURNS = frozenset({"rotate_90", "rotate_270"})

Chance = Annotated[float, Field(gt=0, le=1)]
Strength = Annotated[float, Field(ge=0, le=1)]
Alpha = Annotated[float, Field(ge=0.01, le=100)]
_PartOfArea = Annotated[float, Field(gt=0, le=1)]
_WidthToHeight = Annotated[float, Field(ge=0.01, le=100)]
Areas = Annotated[tuple[_PartOfArea, _PartOfArea], Field(strict=False)]
Ratios = Annotated[tuple[_WidthToHeight, _WidthToHeight], Field(strict=False)]


class AugmentStep(SpecPart):
    """What all steps have: the chance with which a sample is changed."""

    name: str
    chance: Chance = 1.0


class _Boxes(AugmentStep):
    """A step that draws a rectangle: its part of the image's area, and its width / height."""

    scale: Areas
    ratio: Ratios

    @model_validator(mode="after")
    def _ranges_rise(self) -> "_Boxes":
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if low > high:
                raise ValueError(f"{name} is [{low:g}, {high:g}]: the smaller number comes first")
        return self


class VariantStep(AugmentStep):
    """A flip or a rotation as a step of its own."""

    name: Variant
    chance: Chance = 0.5


class Crop(AugmentStep):
    """Adds `padding` black pixels on each side, and cuts an image of the old size out at a random place."""

    name: Literal["crop"]
    padding: int = Field(4, ge=1, le=1024)


class ResizedCrop(_Boxes):
    """Cuts out a random rectangle and scales it to the size of the image (Szegedy et al. 2014, arXiv:1409.4842)."""

    name: Literal["resized_crop"]
    scale: Areas = (0.08, 1.0)
    ratio: Ratios = (0.75, 1.3333)


class Color(AugmentStep):
    """Changes brightness, contrast and saturation by factors from 1 - x to 1 + x, and turns the hue by up to x."""

    name: Literal["color"]
    brightness: Strength = 0.0
    contrast: Strength = 0.0
    saturation: Strength = 0.0
    hue: float = Field(0.0, ge=0, le=0.5)  # of the whole circle

    @model_validator(mode="after")
    def _changes_something(self) -> "Color":
        if not (self.brightness or self.contrast or self.saturation or self.hue):
            raise ValueError("changes nothing: set brightness, contrast, saturation or hue above 0")
        return self


class Erase(_Boxes):
    """Covers a random rectangle with mid-grey (random erasing: Zhong et al. 2017, arXiv:1708.04896)."""

    name: Literal["erase"]
    chance: Chance = 0.5
    scale: Areas = (0.02, 0.4)
    ratio: Ratios = (0.3, 3.3333)


class Mixup(AugmentStep):
    """Blends two samples and their labels by a share from Beta(alpha, alpha) (Zhang et al. 2017, arXiv:1710.09412)."""

    name: Literal["mixup"]
    alpha: Alpha = 0.2


class Cutmix(AugmentStep):
    """Puts a part of another image into each, and blends the labels by the area (Yun et al. 2019, arXiv:1905.04899)."""

    name: Literal["cutmix"]
    alpha: Alpha = 1.0


_Step = VariantStep | Crop | ResizedCrop | Color | Erase | Mixup | Cutmix
_STEPS: tuple[type[AugmentStep], ...] = get_args(_Step)
_STEP_OF = {name: step for step in _STEPS for name in get_args(step.model_fields["name"].annotation)}


def _branch_of(item: Any) -> str | None:
    """Which branch of the union below an item of the list takes."""
    if isinstance(item, str):
        return f"{BRANCH}name" if item in VARIANTS else None
    name = item.get("name") if isinstance(item, dict) else getattr(item, "name", None)
    return f"{BRANCH}{_STEP_OF[name].__name__}" if isinstance(name, str) and name in _STEP_OF else None


def _known(item: Any) -> Any:
    if _branch_of(item) is None:
        others = ", ".join(name for name in _STEP_OF if name not in VARIANTS)
        message = (
            f"must be {', '.join(VARIANTS)}, or an object whose name is one of these or {others}:"
            " such as {name: crop, padding: 4}"
        )
        raise PydanticCustomError("augmentation", "{text}", {"text": message, NAMES: list(_STEP_OF)})
    return item


# Spelt out, as a type checker wants it.
AugmentItem = Annotated[
    Annotated[Variant, Tag(f"{BRANCH}name")]
    | Annotated[VariantStep, Tag(f"{BRANCH}VariantStep")]
    | Annotated[Crop, Tag(f"{BRANCH}Crop")]
    | Annotated[ResizedCrop, Tag(f"{BRANCH}ResizedCrop")]
    | Annotated[Color, Tag(f"{BRANCH}Color")]
    | Annotated[Erase, Tag(f"{BRANCH}Erase")]
    | Annotated[Mixup, Tag(f"{BRANCH}Mixup")]
    | Annotated[Cutmix, Tag(f"{BRANCH}Cutmix")],
    Discriminator(_branch_of),
    BeforeValidator(_known),
]


def variants_in(items: Sequence[Any]) -> list[str]:
    """The plain names of a list, each once."""
    return list(dict.fromkeys(item for item in items if isinstance(item, str)))


def name_of(item: Any) -> str:
    """The name of an item of the list."""
    return item if isinstance(item, str) else str(item.name)
