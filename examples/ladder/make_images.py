"""Make 2,000 JPEG files of 320 x 240 pixels, about 20 kB each, in ten classes: python examples/ladder/make_images.py [FOLDER] [COUNT]

Smooth colour fields with noise, so that they compress like photographs. The same call always makes the same pictures.
"""

import pathlib
import sys

import numpy as np
from PIL import Image

CLASSES = 10


def picture(rng: np.random.Generator, kind: int) -> Image.Image:
    """A random field whose colour tells the class."""
    field = Image.fromarray(rng.integers(0, 255, (15, 20, 3)).astype(np.uint8)).resize((320, 240), Image.Resampling.BICUBIC)
    pixels = np.asarray(field).astype(np.int16) + rng.integers(-12, 12, (240, 320, 3))
    pixels[..., kind % 3] += (kind - CLASSES // 2) * 12
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def main(folder: str = "demo/ladder", count: str = "2000") -> None:
    rng = np.random.default_rng(0)
    for number in range(int(count)):
        kind = number % CLASSES
        target = pathlib.Path(folder) / str(kind) / f"{number:05d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        picture(rng, kind).save(target, quality=85)
    print(f"{count} images in {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
