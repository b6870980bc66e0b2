"""Generated data as a spec names it: `synthetic`, or `synthetic:samples=5000,classes=4,shape=64x64x3`. Pure.

This is the only parser of these names, and the only place of their limits. `jobs.model.catalog` reads them for the api,
`trainer.data.synthetic` for the ranks.

    WrongSynthetic      the text is not understood, or the data would be outside the limits
"""

import re
from dataclasses import dataclass, replace
from math import prod

SYNTHETIC = "synthetic"
EXAMPLE = "samples=5000,classes=4,shape=32x32x3"
LIMITS = {
    "samples": (20, 10_000_000),
    "classes": (2, 1000),
    "targets": (0, 100),
    "height": (8, 4096),
    "width": (8, 4096),
    "channels": (1, 4),
}
MOST_PATTERN_BYTES = 2**30  # every rank keeps an image of each class in memory

_NUMBER = "[0-9]{1,18}"  # longer numbers are outside all limits, and would make long messages
_OPTION = re.compile(
    rf"samples=(?P<samples>{_NUMBER})|classes=(?P<classes>{_NUMBER})|targets=(?P<targets>{_NUMBER})"
    rf"|shape=(?P<height>{_NUMBER})x(?P<width>{_NUMBER})x(?P<channels>{_NUMBER})"
)


class WrongSynthetic(ValueError):
    """The text does not name generated data; the message says what is allowed."""


@dataclass(frozen=True)
class SyntheticData:
    """Generated images: `samples` to train on, and a tenth of them more to test on. Raises `WrongSynthetic`.

    With `targets` each class stands for so many numbers, which a regression learns.
    """

    samples: int = 10_000
    classes: int = 10
    height: int = 32
    width: int = 32
    channels: int = 3
    targets: int = 0

    def __post_init__(self) -> None:
        for figure, (least, most) in LIMITS.items():
            value = getattr(self, figure)
            if not least <= value <= most:
                raise WrongSynthetic(f"synthetic data with {value} {figure}: {least} to {most} are possible")
        if self.samples < self.classes:
            raise WrongSynthetic(
                f"synthetic data with {self.samples} samples of {self.classes} classes: each class needs a sample"
            )
        if self.classes * prod(self.shape) > MOST_PATTERN_BYTES:
            size = "x".join(map(str, self.shape))
            raise WrongSynthetic(
                f"synthetic data with {self.classes} classes of {size} does not fit into memory: classes x height x"
                f" width x channels may be {MOST_PATTERN_BYTES} at most"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of an image (height, width, channel)."""
        return self.height, self.width, self.channels

    @property
    def test_samples(self) -> int:
        """The number of samples of the test part."""
        return self.samples // 10

    def resized(self, image_size: tuple[int, int]) -> "SyntheticData":
        """The data with images of this height and width. Raises `WrongSynthetic`."""
        return replace(self, height=image_size[0], width=image_size[1])


def is_synthetic(source: str) -> bool:
    """Whether a source names generated data, even if its options are wrong."""
    return source.partition(":")[0] == SYNTHETIC


def synthetic_of(source: str) -> SyntheticData:
    """The data that a source with `is_synthetic` names. Raises `WrongSynthetic`."""
    _, colon, options = source.partition(":")
    figures: dict[str, int] = {}
    for option in options.split(",") if colon else ():
        match = _OPTION.fullmatch(option)
        if match is None:
            raise WrongSynthetic(f"{option[:40]!r} is not understood: write {SYNTHETIC}:{EXAMPLE}")
        numbers = {figure: int(text) for figure, text in match.groupdict().items() if text is not None}
        if not figures.keys().isdisjoint(numbers):
            raise WrongSynthetic(f"{option.partition('=')[0]} is there twice: write {SYNTHETIC}:{EXAMPLE}")
        figures |= numbers
    return SyntheticData(**figures)
