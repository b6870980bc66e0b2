"""How busy the slots were, in figures. Pure; called by `analyse`.

docs/telemetry.md defines each figure in words.
"""

from collections.abc import Iterable

import numpy as np

from jobs.insight.analysis.evidence import Floats, SlotSamples
from jobs.views.analysis import SlotUse, Spread

_BUSY = 0.5  # of the scale: the mid-level between off and on, as pulses are measured (IEEE Std 181-2011)
_WINDOW = 30  # samples in which a swing counts: half a minute, longer than batches are fetched ahead
_LEAST_SWING = 0.2  # of the scale: a smaller one has no period worth telling
_LEAST_CORRELATION = 0.3
_LEAST_PERIODS = 3  # fewer are no repetition
_MOST_SAMPLES = 4096  # of which the period is sought: the newest hour


def slot_use(samples: SlotSamples) -> SlotUse:
    """The figures of one slot; there is at least one sample."""
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
    """What "fully busy" is: 100 %, or of a rank with several cores the most that it used."""
    return max(100.0, float(busy.max()))


def spread(values: Floats) -> Spread:
    """Extremes, percentiles and mean."""
    least, p5, p50, p95, greatest = np.percentile(values, (0, 5, 50, 95, 100)).tolist()
    return Spread(least=least, p5=p5, p50=p50, p95=p95, greatest=greatest, mean=float(values.mean()))


def spikiness(level: Floats) -> float:
    """The mean swing within half a minute: of each window of 30 samples the 90th less the 10th percentile; 0..1.

    A slow drift, and a rare dip such as a validation, are no spikes. `level` is 0..1.
    """
    windows = np.array_split(level, max(1, len(level) // _WINDOW))
    swings = [float(np.subtract(*np.percentile(window, (90, 10)))) for window in windows]
    return float(np.mean(swings))


def period_s(at: Floats, values: Floats) -> float | None:
    """The period of a swing that repeats: the first peak of the autocorrelation behind its first zero.

    The autocorrelation is the inverse transform of the power spectrum (Wiener-Khinchin), each lag divided by the number
    of its pairs. None where no peak reaches 0.3, or fewer than three periods were seen.
    """
    at, values = at[-_MOST_SAMPLES:], values[-_MOST_SAMPLES:]
    if len(values) < 4 * _LEAST_PERIODS:
        return None
    tick = float(np.median(np.diff(at)))
    if tick <= 0:
        return None
    even = np.interp(np.arange(at[0], at[-1], tick), at, values)
    correlation = _autocorrelation(even)
    below = np.flatnonzero(correlation < 0)
    if not len(below):
        return None
    rest = correlation[below[0] : len(correlation) // _LEAST_PERIODS + 1]
    for lag in range(1, len(rest) - 1):
        if rest[lag] >= _LEAST_CORRELATION and rest[lag - 1] < rest[lag] >= rest[lag + 1]:
            return float((below[0] + lag) * tick)
    return None


def _autocorrelation(values: Floats) -> Floats:
    """Of lag 0, 1, ...: 1 at lag 0; all zero where the values are all the same."""
    count = len(values)
    spectrum = np.fft.rfft(values - values.mean(), 2 * count)  # twice as long: no end meets its beginning
    raw: Floats = np.fft.irfft(spectrum * spectrum.conj())[:count] / np.arange(count, 0, -1)
    return raw / raw[0] if raw[0] > 1e-12 else np.zeros(count)


def mean_busy(samples: Iterable[SlotSamples]) -> float | None:
    """The mean of all samples, in percent; None where there are none."""
    busy = [one.busy for one in samples]
    return float(np.concatenate(busy).mean()) if busy else None
