"""Where a chart shows a colour, read from its pixels."""

from playwright.sync_api import Locator

_PEAK = """(canvas, [from, to, name]) => {
    const probe = document.createElement('canvas').getContext('2d');
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
    const left = Math.floor(from * canvas.width);
    const width = Math.max(1, Math.ceil((to - from) * canvas.width));
    const {data} = canvas.getContext('2d').getImageData(left, 0, width, canvas.height);
    for (let at = 0; at < data.length; at += 4) {
        const distance = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
        if (data[at + 3] > 128 && distance < 90) return 1 - Math.floor(at / 4 / width) / canvas.height;
    }
    return null;
}"""


def peak(figure: Locator, start: float = 0.0, stop: float = 1.0, colour: str = "run-0") -> float | None:
    """The height of the highest pixel of a colour, from 0 (bottom) to 1 (top), between two shares of the width."""
    height: float | None = figure.locator("canvas").evaluate(_PEAK, [start, stop, colour])
    return height
