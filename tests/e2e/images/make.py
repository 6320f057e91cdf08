#!/usr/bin/env python3
"""Draws the images of this folder: CIFAR-10's binary layout (a label byte, then 32 x 32 bytes each of red, green and
blue), ten classes of coloured shapes at places, of sizes and in colours that a seed gives. They are nobody's photographs.

Usage: make.py [FOLDER]     writes train.bin.gz (80 images) and test.bin.gz (40) there
"""
import gzip
import pathlib
import random
import sys

SIZE = 32


def inside(label, x, y, r):
    """Whether (x, y), from the centre, belongs to the shape of class `label` of radius r."""
    ax, ay = abs(x), abs(y)
    return [
        x * x + y * y <= r * r,                       # disc
        r * r / 3 <= x * x + y * y <= r * r,          # ring
        max(ax, ay) <= r,                             # square
        r / 2 <= max(ax, ay) <= r,                    # frame
        ax + ay <= r,                                 # diamond
        min(ax, ay) <= r / 3 and max(ax, ay) <= r,    # cross
        ax <= r / 3 and ay <= r,                      # upright bar
        ay <= r / 3 and ax <= r,                      # level bar
        abs(ax - ay) <= r / 3 and max(ax, ay) <= r,   # saltire
        y >= 2 * ax - r and y <= r,                   # triangle
    ][label]


def image(generator, label):
    radius = generator.uniform(7, 12)
    centre = [generator.uniform(12, 20) for _ in range(2)]
    ground = [generator.randrange(0, 96) for _ in range(3)]
    colour = [generator.randrange(128, 256) for _ in range(3)]
    shape = [inside(label, x - centre[0], y - centre[1], radius) for y in range(SIZE) for x in range(SIZE)]
    planes = [bytes(colour[c] if pixel else ground[c] for pixel in shape) for c in range(3)]
    return bytes([label]) + b"".join(planes)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    for name, seed, count in (("train", 1, 80), ("test", 2, 40)):
        generator = random.Random(seed)
        records = b"".join(image(generator, i % 10) for i in range(count))
        (folder / f"{name}.bin.gz").write_bytes(gzip.compress(records, 9, mtime=0))


if __name__ == "__main__":
    main()
