#!/usr/bin/env python3
"""How fast does `mlbench bench decode` decode JPEGs: beside other libraries on one core, and on two threads beside one?

    image_decoding.py --images FILE.tar [--bin build/release/bin] [--python PYTHON] [--pairs 21] [--output FILE]
    image_decoding.py --table [--output FILE]          what is kept, as Markdown

Whole images are decoded to RGB. Beside the others, images per second of processor time count, and the best of --decoders is
chosen once, as bench/ratio.py has it. One and two threads differ in images per second, so that needs two idle cores. Limits
are 0.97 and 1.9. Writes the JSON, and exits with 1 where a row is missed, with 3 where one is undecided. --python has Pillow,
NumPy and the packages of --decoders (image_decode_peer.py).
"""
import json
import pathlib
import sys

import ratio

PEER = pathlib.Path(__file__).resolve().parent / "image_decode_peer.py"
DECODERS = ("pillow", "simplejpeg", "opencv", "torchvision")  # of PEER


def rows_of(given):
    """(name of a row, arguments of ratio.py)"""
    places = {"PYTHON": given.python, "mlbench": given.bin / "mlbench", "bench/image_decode_peer.py": PEER, "FILE.tar": given.images}
    ours = "mlbench bench decode FILE.tar --rounds 1 --json"
    peers = [f"PYTHON -B bench/image_decode_peer.py --images FILE.tar --work decode --decoder {name}" for name in given.decoders]
    same = ["--pairs", str(given.pairs), *(word for name, place in places.items() for word in ("--word", f"{name}={place}"))]
    yield "beside the best library, one core", ["--ours", ours, *(word for peer in peers for word in ("--peer", peer)), *same,
                                                "--key", "median_samples_per_cpu_s", "--limit", "0.97"]
    yield "two threads beside one", ["--ours", ours + " --threads 2", "--peer", ours + " --threads 1", *same,
                                     "--key", "median_samples_per_s", "--limit", "1.9"]


def table_of(document):
    return ratio.table("| | ours | other | ratio | limit | |", (
        f"{row['what']} | {row['ours_median']:.0f} | {row['peer_median']:.0f} | "
        f"{ratio.with_interval(row['ratio'], row['interval_95'])} | {row['limit']} | {row['verdict']}" for row in document["rows"]))


def main():
    parser = ratio.parser_of(__doc__, "image-decoding.json")
    parser.add_argument("--images", type=pathlib.Path, help="a tar file of JPEGs")
    parser.add_argument("--decoders", nargs="+", choices=DECODERS, default=DECODERS)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--python", default="/usr/bin/python3", help="one with the libraries (default: %(default)s)")
    given = parser.parse_args()
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    if not given.images:
        parser.error("--images is missing: a tar file of JPEGs")
    document = {"rows": []}
    for what, words in rows_of(given):
        document["rows"].append({"what": what, **ratio.compare(ratio.parse(words))})
        ratio.write(given.output, document)
    print(table_of(document))
    return ratio.exit_code_of(document["rows"])


if __name__ == "__main__":
    sys.exit(main())
