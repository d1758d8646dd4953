"""Make a small image data set: JPEG crops of two photographs, one folder per class.

    python examples/make_images.py [FOLDER] [COUNT]

The photographs stand beside this file (photographs/README.md names their authors). The same call always makes the same files.
"""

import random
import sys
from pathlib import Path

from PIL import Image, ImageEnhance, ImageOps

PHOTOGRAPHS = Path(__file__).with_name("photographs")
SIZE = (160, 120)


def crop(photo: Image.Image, rng: random.Random) -> Image.Image:
    """A random part of the photograph, perhaps mirrored, a little brighter or darker, as a camera would see it."""
    scale = rng.uniform(1.0, 2.2)
    width, height = int(SIZE[0] * scale), int(SIZE[1] * scale)
    left, top = rng.randrange(photo.width - width), rng.randrange(photo.height - height)
    image = photo.crop((left, top, left + width, top + height)).resize(SIZE, Image.Resampling.BILINEAR)
    if rng.random() < 0.5:
        image = ImageOps.mirror(image)
    return ImageEnhance.Brightness(image).enhance(rng.uniform(0.7, 1.3))


def main(folder: str = "demo/images", count: str = "2000") -> None:
    files = sorted(PHOTOGRAPHS.glob("*.jpg"))
    photos = [Image.open(file).convert("RGB") for file in files]
    rng = random.Random(0)
    for number in range(int(count)):
        kind = number % len(photos)
        target = Path(folder) / files[kind].stem / f"{number:05d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        crop(photos[kind], rng).save(target, quality=90)
    print(f"{count} images of {len(files)} classes in {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
