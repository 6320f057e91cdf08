"""What Pillow makes of images: the SHA-256 of the RGB bytes of each case, for the tests of this folder.

usage: pillow_oracle.py FOLDER

FOLDER/cases.json is a list of {"file", "crop", "edges", "size", "window", "flip"}, all but the first of which may be null.
In that order: a part is cut out (left, top, width, height), what lies within edges (left, top, right, bottom) is resized
to a size (bilinear), a part of that is cut out, left and right are exchanged. Writes FOLDER/result.json, a list of texts:
a hash, or "error: ..." where Pillow refuses the file.
"""
import hashlib
import json
import pathlib
import sys

from PIL import Image


def cut(image, part):
    left, top, width, height = part
    return image.crop((left, top, left + width, top + height))


def result_of(case):
    with Image.open(case["file"]) as opened:
        image = opened.convert("RGB")
    if case["crop"]:
        image = cut(image, case["crop"])
    if case["size"]:
        image = image.resize(case["size"], Image.Resampling.BILINEAR, box=case["edges"])
    if case["window"]:
        image = cut(image, case["window"])
    if case["flip"]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return hashlib.sha256(image.tobytes()).hexdigest()


def answer(case):
    try:
        return result_of(case)
    except (OSError, Image.DecompressionBombError) as refusal:
        return f"error: {refusal}"


def main(folder):
    cases = json.loads((folder / "cases.json").read_text())
    (folder / "result.json").write_text(json.dumps([answer(case) for case in cases]))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
