"""Changes of training images, each for many images at once. Pure; used by `trainer.data.augment`.

Images are (image, height, width, channel), uint8 or float32. All random numbers are given, so that the same image is
changed in the same way on any rank. What comes back has the same shape and dtype, and stays in the value range.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from jobs.model.augment_fields import AugmentStep, Color, Crop, Erase, ResizedCrop, VariantStep
from trainer.data.interfaces import Features

Range = tuple[float, float]  # the smallest and the largest value of a pixel: black and white
Draws = NDArray[np.float64]  # (image, number) from 0 to 1
DRAWS = 4  # numbers for an image, whatever the step

_VARIANTS: dict[str, Callable[[Features], Features]] = {
    "flip_horizontal": lambda images: images[:, :, ::-1],
    "flip_vertical": lambda images: images[:, ::-1],
    "rotate_90": lambda images: np.rot90(images, 1, axes=(1, 2)),  # counter-clockwise
    "rotate_180": lambda images: images[:, ::-1, ::-1],
    "rotate_270": lambda images: np.rot90(images, 3, axes=(1, 2)),
}

_GREY = np.array([0.299, 0.587, 0.114])  # the share of red, green and blue in brightness: ITU-R BT.601
_YIQ = np.array([_GREY, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])  # a turn of its I and Q turns the hue


def transformed(step: AugmentStep, images: Features, draws: Draws, value_range: Range) -> Features:
    """The images changed by a step. `draws` has `DRAWS` random numbers from 0 to 1 for each image."""
    match step:
        case VariantStep():
            return variant(step.name, images)
        case Crop():
            return cropped(images, draws, padding=step.padding, black=value_range[0])
        case ResizedCrop():
            return resized_crops(images, draws, step)
        case Color():
            return recoloured(images, draws, step, value_range)
        case Erase():
            return erased(images, draws, step, value_range)
    raise AssertionError(step)


def variant(name: str, images: Features) -> Features:
    """The images flipped or rotated."""
    view = _VARIANTS[name](images)
    turned = np.empty(view.shape, images.dtype)
    for channel in range(view.shape[-1]):  # NumPy copies such a view by its last axis, which is too short
        turned[..., channel] = view[..., channel]
    return turned


def cropped(images: Features, draws: Draws, *, padding: int, black: float) -> Features:
    """Windows of the size of the images, at random places of the images with a border of black pixels."""
    samples, height, width, channels = images.shape
    bordered = np.full((samples, height + 2 * padding, width + 2 * padding, channels), black, images.dtype)
    bordered[:, padding : padding + height, padding : padding + width] = images
    places = (draws[:, :2] * (2 * padding + 1)).astype(int)
    windows = np.empty_like(images, order="C")
    for window, whole, (top, left) in zip(windows, bordered, places.tolist(), strict=True):
        window[:] = whole[top : top + height, left : left + width]
    return windows


def resized_crops(images: Features, draws: Draws, step: ResizedCrop) -> Features:
    """Random rectangles of the images, bilinearly scaled to the size of the images."""
    import tensorflow as tf  # by its own threads, some 20 times faster than NumPy

    height, width = images.shape[1:3]
    top, left, bottom, right = rectangles(draws, height, width, scale=step.scale, ratio=step.ratio)
    # `crop_and_resize` puts the first and the last row of its result on those of the box. Half a pixel of the result is
    # to lie beyond them, as in `tf.image.resize`: then a box that is the whole image gives the image itself.
    rows, columns = (bottom - top) / height, (right - left) / width
    boxes = np.stack(
        [
            (top + (rows - 1) / 2) / max(height - 1, 1),
            (left + (columns - 1) / 2) / max(width - 1, 1),
            (bottom - 1 - (rows - 1) / 2) / max(height - 1, 1),
            (right - 1 - (columns - 1) / 2) / max(width - 1, 1),
        ],
        axis=1,
    )
    with tf.device("CPU:0"):  # the GPU and its memory are for the model
        values = tf.image.crop_and_resize(images, np.clip(boxes, 0, 1), np.arange(len(images)), (height, width)).numpy()
    return _as(images.dtype, values)


def recoloured(images: Features, draws: Draws, step: Color, value_range: Range) -> Features:
    """Images of another brightness, contrast, saturation and hue, changed in this sequence; the saturation of colours.

    All of it is one linear map of the channels and a shift, for each image another one. So values are cut off at the
    ends of the range once.
    """
    low, high = value_range
    channels = images.shape[-1]
    brightness, contrast, saturation = (
        1 + strength * (2 * draw[:, np.newaxis, np.newaxis] - 1)
        for strength, draw in zip((step.brightness, step.contrast, step.saturation), draws[:, :3].T, strict=True)
    )
    grey = _GREY if channels == 3 else np.full(channels, 1 / channels)
    maps = np.broadcast_to(brightness * contrast * np.eye(channels), (len(images), channels, channels))
    if channels == 3:  # (channel out, channel in)
        maps = (saturation * np.eye(3) + (1 - saturation) * np.tile(grey, (3, 1))) @ maps
        if step.hue:
            maps = _turns(2 * np.pi * step.hue * (2 * draws[:, 3] - 1)) @ maps
    towards_mean = (brightness * (1 - contrast)).ravel()
    changed = np.empty_like(images, order="C")
    for target, image, map_, share in zip(changed, images, maps.astype(np.float32), towards_mean, strict=True):
        pixels = image.reshape(-1, channels).astype(np.float32)
        pixels -= np.float32(low)
        mean = float((pixels @ grey.astype(np.float32)).mean())
        pixels = pixels @ map_.T
        pixels += np.float32(share * mean + low)
        target[:] = _as(images.dtype, np.clip(pixels, low, high, out=pixels)).reshape(image.shape)
    return changed


def erased(images: Features, draws: Draws, step: Erase, value_range: Range) -> Features:
    """Images with a random rectangle in the middle of the value range, which is 0 for the network."""
    low, high = value_range
    height, width = images.shape[1:3]
    covered = images.copy()
    top, left, bottom, right = rectangles(draws, height, width, scale=step.scale, ratio=step.ratio)
    for image, *sides in zip(covered, top.tolist(), left.tolist(), bottom.tolist(), right.tolist(), strict=True):
        first_row, first_column, last_row, last_column = sides
        image[first_row:last_row, first_column:last_column] = (low + high) / 2
    return covered


def rectangles(
    draws: Draws, height: int, width: int, *, scale: Range, ratio: Range
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(top, left, bottom, right) of a rectangle in each image, in whole pixels; the last two are exclusive.

    Its area is a part of the image's, uniform in `scale`. Its width / height is log-uniform in `ratio`, and brought to
    what the image has room for.
    """
    area = (scale[0] + draws[:, 0] * (scale[1] - scale[0])) * height * width
    wanted = np.exp(np.log(ratio[0]) + draws[:, 1] * (np.log(ratio[1]) - np.log(ratio[0])))
    fitting = np.clip(wanted, area / height**2, width**2 / area)
    rows = np.clip(np.rint(np.sqrt(area / fitting)), 1, height).astype(np.int64)
    columns = np.clip(np.rint(np.sqrt(area * fitting)), 1, width).astype(np.int64)
    top = (draws[:, 2] * (height - rows + 1)).astype(np.int64)
    left = (draws[:, 3] * (width - columns + 1)).astype(np.int64)
    return top, left, top + rows, left + columns


def _turns(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps (image, channel out, channel in) that turn the hue by some angles."""
    turns = np.tile(np.eye(3), (len(angles), 1, 1))
    turns[:, 1, 1] = turns[:, 2, 2] = np.cos(angles)
    turns[:, 2, 1] = np.sin(angles)
    turns[:, 1, 2] = -turns[:, 2, 1]
    maps: NDArray[np.float64] = np.linalg.inv(_YIQ) @ turns @ _YIQ
    return maps


def _as(dtype: np.dtype[np.generic], values: Features) -> Features:
    """Values as pixels of a dtype: bytes are rounded."""
    if np.issubdtype(dtype, np.integer):
        np.rint(values, out=values)
    return values.astype(dtype, copy=False)
