#!/usr/bin/env python3
"""Images per second of Pillow with the same work as `mlbench bench decode`, in one process and thread: decoding, or with
the crop of training or evaluation, to float32 planes by NumPy. Other libraries (--decoder) decode alone. For bench/ratio.py:

    ratio.py --ours "build/release/bin/mlbench bench decode FILE.tar --crop train --rounds 1 --json"
             --peer "PYTHON bench/image_decode_peer.py --images FILE.tar --work train" --python /usr/bin/python3

The boxes of training crops have the distribution of torchvision's RandomResizedCrop, not those of mlbench. Needs
Pillow and NumPy (Debian: python3-pil, python3-numpy), and the package of --decoder. Images that a decoder refuses are left out.
"""
import argparse
import importlib
import io
import itertools
import json
import math
import random
import tarfile
import time

import numpy
from PIL import Image, features

SIDE, SHORTER = 224, 256
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
DEVIATION = numpy.array([0.229, 0.224, 0.225], numpy.float32)


def box_of(width, height, generator):
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1)
        ratio = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = generator.randint(0, width - w), generator.randint(0, height - h)
            return left, top, left + w, top + h
    return 0, 0, width, height


def planes(image):
    values = numpy.asarray(image, numpy.float32) / 255
    return numpy.ascontiguousarray(((values - MEAN) / DEVIATION).transpose(2, 0, 1))


def train(image, generator):
    cut = image.crop(box_of(*image.size, generator)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    if generator.random() < 0.5:
        cut = cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return planes(cut)


def evaluate(image, _):
    width, height = image.size
    size = (SHORTER, SHORTER * height // width) if width <= height else (SHORTER * width // height, SHORTER)
    left, top = round((size[0] - SIDE) / 2), round((size[1] - SIDE) / 2)
    return planes(image.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + SIDE, top + SIDE)))


def by_pillow(_):
    def decode(content):
        with Image.open(io.BytesIO(content)) as opened:
            return opened.convert("RGB")
    return decode


def by_simplejpeg(simplejpeg):
    return lambda content: simplejpeg.decode_jpeg(content, colorspace="RGB")


def by_opencv(cv2):
    cv2.setNumThreads(1)

    def decode(content):
        image = cv2.imdecode(numpy.frombuffer(content, numpy.uint8), cv2.IMREAD_COLOR)
        if image is None:
            raise ValueError("not decoded")
        return image
    return decode


def by_torchvision(io_of_torchvision):
    import torch
    torch.set_num_threads(1)
    return lambda content: io_of_torchvision.decode_jpeg(torch.frombuffer(bytearray(content), dtype=torch.uint8),
                                                         mode=io_of_torchvision.ImageReadMode.RGB)


DECODERS = {"pillow": ("PIL", by_pillow), "simplejpeg": ("simplejpeg", by_simplejpeg), "opencv": ("cv2", by_opencv),
            "torchvision": ("torchvision.io", by_torchvision)}


def decoder_of(name):
    """(what decodes a file, the version of its package)"""
    module, make = DECODERS[name]
    return make(importlib.import_module(module)), importlib.import_module(module.split(".")[0]).__version__


def accepted(files, decode):
    """Those that are decoded."""
    good = []
    for content in files:
        try:
            decode(content)
        except (OSError, ValueError, RuntimeError):
            continue
        good.append(content)
    return good


WORK = {"decode": lambda image, _: image, "train": train, "evaluate": evaluate}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True)
    parser.add_argument("--work", choices=list(WORK), default="train")
    parser.add_argument("--decoder", choices=list(DECODERS), default="pillow")
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    if options.decoder != "pillow" and options.work != "decode":
        parser.error(f"--decoder {options.decoder} takes --work decode alone")
    decode, version = decoder_of(options.decoder)
    with tarfile.open(options.images) as tar:
        files = [tar.extractfile(member).read() for member in tar if member.name.endswith(".JPEG")]
    good = accepted(files, decode)
    generator, work = random.Random(1), WORK[options.work]

    def measure():
        begin, cpu_begin = time.monotonic(), time.process_time()
        for count in itertools.count(1):
            work(decode(good[count % len(good)]), generator)
            if time.monotonic() - begin >= options.seconds:
                return count / (time.monotonic() - begin), count / (time.process_time() - cpu_begin)

    measure()
    per_s, per_cpu_s = measure()
    print(json.dumps({"median_samples_per_s": per_s, "median_samples_per_cpu_s": per_cpu_s, "work": options.work,
                      "decoder": options.decoder, "version": version, "left_out": len(files) - len(good),
                      "libjpeg_turbo": features.version_feature("libjpeg_turbo") if options.decoder == "pillow" else None}))


if __name__ == "__main__":
    main()
