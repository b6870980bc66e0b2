"""Figures of how busy the slots were. Pure; called by `analyse`.

docs/telemetry.md defines each figure in words.
"""

from collections.abc import Iterable

import numpy as np

from jobs.insight.analysis.evidence import Floats, SlotSamples
from jobs.views.analysis import SlotUse, Spread

_BUSY = 0.5  # of the scale: the mid-level between off and on, as pulses are measured (IEEE Std 181-2011)
_WINDOW = 30  # samples in which a swing counts: half a minute, longer than batches are fetched ahead
_LEAST_SWING = 0.2  # of the scale: the period of a smaller swing does not matter
_LEAST_CORRELATION = 0.3
_LEAST_PERIODS = 3  # fewer are no repetition
_MOST_SAMPLES = 4096  # in which a period is looked for: the newest hour


def slot_use(samples: SlotSamples) -> SlotUse:
    """The figures of one slot with at least one sample."""
    busy, scale = samples.busy, scale_of(samples.busy)
    level = spikiness(busy / scale)
    return SlotUse(
        metric=samples.metric,
        host=samples.host,
        slot=samples.slot,
        rank=samples.rank,
        attempt=samples.attempt,
        samples=len(busy),
        seconds=float(samples.at[-1] - samples.at[0]),
        spread=spread(busy),
        duty_cycle=float(np.mean(busy >= _BUSY * scale)),
        spikiness=level,
        period_s=period_s(samples.at, busy) if level >= _LEAST_SWING else None,
    )


def scale_of(busy: Floats) -> float:
    """What counts as fully busy: 100 %, or the most that a rank with several cores used."""
    return max(100.0, float(busy.max()))


def spread(values: Floats) -> Spread:
    """Extremes, percentiles and mean."""
    least, p5, p50, p95, greatest = np.percentile(values, (0, 5, 50, 95, 100)).tolist()
    return Spread(least=least, p5=p5, p50=p50, p95=p95, greatest=greatest, mean=float(values.mean()))


def spikiness(level: Floats) -> float:
    """The mean swing within half a minute, 0..1: the 90th minus the 10th percentile of each window of 30 samples.

    A slow drift or a rare dip, such as a validation, is not a spike. `level` is 0..1.
    """
    windows = np.array_split(level, max(1, len(level) // _WINDOW))
    swings = [float(np.subtract(*np.percentile(window, (90, 10)))) for window in windows]
    return float(np.mean(swings))


def period_s(at: Floats, values: Floats) -> float | None:
    """The period of a repeating swing: the first peak of the autocorrelation after its first zero.

    The autocorrelation is the inverse transform of the power spectrum (Wiener-Khinchin), each lag divided by the number
    of its pairs. None if no peak reaches 0.3, or there were fewer than three periods.
    """
    at, values = at[-_MOST_SAMPLES:], values[-_MOST_SAMPLES:]
    if len(values) < 4 * _LEAST_PERIODS:
        return None
    tick = float(np.median(np.diff(at)))
    if tick <= 0:
        return None
    even = np.interp(np.arange(at[0], at[-1], tick), at, values)
    correlation = _autocorrelation(even)
    below_zero = np.flatnonzero(correlation < 0)
    if not len(below_zero):
        return None
    after_zero = correlation[below_zero[0] : len(correlation) // _LEAST_PERIODS + 1]
    for lag in range(1, len(after_zero) - 1):
        if after_zero[lag] >= _LEAST_CORRELATION and after_zero[lag - 1] < after_zero[lag] >= after_zero[lag + 1]:
            return float((below_zero[0] + lag) * tick)
    return None


def _autocorrelation(values: Floats) -> Floats:
    """The autocorrelation by lag, 1 at lag 0. All zero if the values are all the same."""
    count = len(values)
    spectrum = np.fft.rfft(values - values.mean(), 2 * count)  # twice as long, so that it does not wrap around
    raw: Floats = np.fft.irfft(spectrum * spectrum.conj())[:count] / np.arange(count, 0, -1)
    return raw / raw[0] if raw[0] > 1e-12 else np.zeros(count)


def mean_busy(samples: Iterable[SlotSamples]) -> float | None:
    """The mean of all samples, in percent; None where there are none."""
    busy = [one.busy for one in samples]
    return float(np.concatenate(busy).mean()) if busy else None
