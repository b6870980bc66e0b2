"""What an hour of a slot costs: the text of `HORA_GPU_HOUR_PRICE`. Read by the settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

_DEFAULT, _CPU = "default", "cpu"
_MODEL = re.compile(r"[^\x00-\x1f\x7f-\x9f=,]{1,128}")
_MOST = 1e6


@dataclass(frozen=True)
class Prices:
    """Prices of an hour of a slot, by parts of the names of GPU models in lower case. `cpu` is that of a CPU slot."""

    by_model: Mapping[str, float]
    default: float | None = None  # of every slot that has no other price

    def of(self, device: str | None) -> float | None:
        """The price of an hour of a slot: `cpu`, or the model of its GPU. None: unknown.

        Of several parts that the model's name contains, the longest one counts. An unknown device has the default.
        """
        if device is None or device == _CPU:
            return self.default if device is None else self.by_model.get(_CPU, self.default)
        parts = [part for part in self.by_model if part != _CPU and part in device.lower()]
        return self.by_model[max(parts, key=len)] if parts else self.default

    def of_all(self, devices: Sequence[str | None]) -> float | None:
        """The price of an hour of all these slots. None if one of them has no price."""
        prices = [self.of(device) for device in devices]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None


def prices_from(text: str) -> Prices | None:
    """The prices in `2.5` or `default=2.5,h100=3.9,cpu=0.04`. None for an empty text.

    Raises ValueError with a sentence that names the wrong part.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    prices: dict[str, float] = {}
    for entry in entries:
        model, equals, number = (part.strip() for part in entry.rpartition("="))
        if not equals and len(entries) > 1:
            raise ValueError(f"write each price as MODEL=NUMBER, not {_shown(entry)}; default=NUMBER is for all others")
        model = model.lower() if equals else _DEFAULT
        if not _MODEL.fullmatch(model):
            raise ValueError(f"{_shown(model)} is no part of a model's name")
        if model in prices:
            raise ValueError(f"{_shown(model)} has two prices")
        prices[model] = _price(model, number)
    default = prices.pop(_DEFAULT, None)
    return Prices(prices, default) if entries else None


def _price(model: str, number: str) -> float:
    try:
        price = float(number)
    except ValueError:
        raise ValueError(f"the price of {_shown(model)} is no number: {_shown(number)}") from None
    if not isfinite(price) or not 0 <= price <= _MOST:
        raise ValueError(f"the price of {_shown(model)} must be from 0 to {_MOST:,.0f}, not {_shown(number)}")
    return price


def _shown(text: str) -> str:
    return repr(text[:80])
