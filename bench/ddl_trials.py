#!/usr/bin/env python3
"""Does `mlbench study ddl` name the stage that was slowed on purpose? In each trial, read, decode, compute and exchange take
about as long as each other, but one takes longer. The seed says which one, and how much: compute or exchange takes 1.8 to 4
times that, an input (read, decode) 2.2 to 3 times the sum of compute and exchange, which come one after the other while it is
loaded. In balanced trials none takes longer.

    ddl_trials.py [--bin build/release/bin] [--trials 20] [--balanced 5] [--seed 1] [--output docs/results/ddl-trials.json]
    ddl_trials.py --table [--output FILE]             what is kept, as Markdown

Two ranks with a thread for decoding each run in one network namespace, and take JPEGs from a store in another one:

    read       the link of the store is held at a rate by tbf
    decode     the images have more pixels, and the rate of the link is that for their bytes
    compute    --compute emulated=STEP
    exchange   the loopback between the ranks is held at a rate by tbf

The time of all others is what decoding takes on this machine, varied by 8 %. The store is a small server of this script, which
answers as S3 does, without looking at signatures. Prints a line per trial and writes the JSON. Exits with 1 where fewer than
19 of 20 are right, or where a balanced trial has a name. Root and two cores; Pillow in --images-python.
"""
import argparse
import hashlib
import http.server
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "engines"))
import netns  # noqa: E402

STAGES = ("read", "decode", "compute", "exchange")
WORKERS, BATCH, STEPS = 2, 4, 40  # images of a worker's step
PIXELS = (2000, 1500)             # of an image that is not slowed
LARGE = 4                         # times the pixels: the images by which decoding is calibrated, too
QUALITY = 12                      # of its JPEG
DISTINCT, CLASSES = 20, 10
SAMPLES = {"train": 5000, "val": 500}  # of the data set
PARAMETERS = 272_474              # of the model below
PAYLOAD = 1448 / 1514
ALIKE, SLOWED = (0.92, 1.08), (1.8, 4.0)  # as src/mlbench/report/study/stages_test.cpp has it
INPUTS, SLOWED_INPUT = ("read", "decode"), (2.2, 3.0)
RIGHT = 19 / 20
LO_BURST = 128 * 1024             # a packet of the loopback has up to 64 KiB
DATA, BUCKET, PORT = "tiny-imagenet-10-tar", "trials", 9000


def task_of(name, title, workers, batch, epochs, side, evaluation_batch):
    """A task file: a small model on the images of this script, cut to squares of `side` pixels."""
    return f"""name = "{name}"
title = "{title}"
workers = [{workers}]
loss = "cross_entropy"
batch_size = {batch}
epochs = {epochs}

[data]
name = "{DATA}"
sample_shape = [3, {side}, {side}]
classes = {CLASSES}
train_transform = ["resize_center_crop", "scale_255", "normalise"]
eval_transform = ["resize_center_crop", "scale_255", "normalise"]
mean = [0.485, 0.456, 0.406]
stddev = [0.229, 0.224, 0.225]
evaluation_batch = {evaluation_batch}

[model]
name = "resnet-cifar"

[optimizer]
name = "centralized_sgd"
lr = 0.1

[evaluation]
every_epoch = true
metrics = ["Prec@1", "loss"]

[goal]
metric = "Prec@1"
split = "test"
target = 100
light_target = 100
"""


# ---- the store ----------------------------------------------------------------------------------------------------------


class Answers(http.server.BaseHTTPRequestHandler):
    """Lists and ranges of the files below the server's folder, as objects of a bucket."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        if "list-type" in query:
            return self.send(http.HTTPStatus.OK, self.list_of(query.get("prefix", [""])[0]))
        content, etag = self.server.objects[urllib.parse.unquote(url.path).removeprefix(f"/{BUCKET}/")]
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last or len(content)), len(content) - 1)
        self.send(http.HTTPStatus.PARTIAL_CONTENT, content[first:last + 1],
                  {"Content-Range": f"bytes {first}-{last}/{len(content)}", "ETag": f'"{etag}"'})

    def list_of(self, prefix):
        rows = "".join(f"<Contents><Key>{key}</Key><Size>{len(content)}</Size><ETag>\"{etag}\"</ETag></Contents>"
                       for key, (content, etag) in sorted(self.server.objects.items()) if key.startswith(prefix))
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()

    def send(self, status, body, headers=None):
        self.send_response_only(status)
        for name, value in {**(headers or {}), "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(folder):
    server = http.server.ThreadingHTTPServer(("", PORT), Answers)
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    server.objects = {key: (content, hashlib.md5(content).hexdigest()) for key, content in contents.items()}
    print("serving", flush=True)
    server.serve_forever()


# ---- the images ---------------------------------------------------------------------------------------------------------


def write_shards(folder, area, images):
    """Shards of images with `area` times the pixels: photographs of the tar file `images` where it is one, else made ones.
    Of --images-python."""
    import PIL.Image
    import PIL.ImageFilter
    size = tuple(round(side * area ** 0.5) for side in PIXELS)
    pictures = []
    if images:
        with tarfile.open(images) as packed:
            names = sorted(name for name in packed.getnames() if name.lower().endswith((".jpg", ".jpeg")))
            for name in names[:DISTINCT]:
                pictures.append(PIL.Image.open(io.BytesIO(packed.extractfile(name).read())).convert("RGB"))
    chance = random.Random(0)
    while len(pictures) < DISTINCT:
        noise = PIL.Image.frombytes("RGB", (200, 150), chance.randbytes(200 * 150 * 3))
        pictures.append(noise.filter(PIL.ImageFilter.GaussianBlur(2)))
    encoded = []
    for picture in pictures:
        kept = io.BytesIO()
        # Larger images have about as many bytes.
        picture.resize(size, PIL.Image.BICUBIC).save(kept, "JPEG", quality=round(QUALITY / area ** 0.5))
        encoded.append(kept.getvalue())
    for split, samples in SAMPLES.items():
        path = folder / "data" / DATA / split / f"{split}-00000-of-00001.tar"
        path.parent.mkdir(parents=True)
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
            for number in range(samples):
                content = encoded[number % len(encoded)]
                for ending, part in (("jpg", content), ("cls", str(number % CLASSES).encode())):
                    member = tarfile.TarInfo(f"{number:05}.{ending}")
                    member.size = len(part)
                    shard.addfile(member, io.BytesIO(part))
    print(json.dumps(sum(map(len, encoded)) / len(encoded)))


# ---- a trial ------------------------------------------------------------------------------------------------------------


def plan(given):
    """(seed, stage that is slowed or None, how much) of each trial."""
    chance = random.Random(given.seed)
    slowed = [STAGES[number % len(STAGES)] for number in range(given.trials)]
    chance.shuffle(slowed)
    return [(chance.getrandbits(32), stage) for stage in slowed + [None] * given.balanced]


def times_of(seed, slowed, decode_s):
    """Seconds that each stage is to take for a step, and the factor of the slowed one."""
    chance = random.Random(seed)
    times = {stage: decode_s * (1 if stage == "decode" else chance.uniform(*ALIKE)) for stage in STAGES}
    factor = 1
    if slowed in INPUTS:
        factor = chance.uniform(*SLOWED_INPUT) * (times["compute"] + times["exchange"]) / times[slowed]
    elif slowed:
        factor = chance.uniform(*SLOWED)
    if slowed:
        times[slowed] *= factor
    return times, factor


class Lab:
    """Two hosts: the ranks on h1, the store on h2."""

    def __init__(self, given, folder, network):
        self.given, self.folder, self.network, self.images = given, folder, network, {}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
            "AWS_ACCESS_KEY_ID": "trials", "AWS_SECRET_ACCESS_KEY": "trials", "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_ENDPOINT_URL_S3": f"http://{network.addresses['h2']}:{PORT}", "MLBENCH_CORE_LOCK": str(folder / "lock")}
        (folder / "task.toml").write_text(task_of("trials", "Images whose parts of a step are alike", WORKERS, BATCH, 1000, 224, BATCH))

    def mlbench(self, home, *words):
        done = self.network.run("h1", [self.given.bin / "mlbench", *words, "--home", home, "--json"], check=False, timeout=600,
                                env=self.environment)
        if done.returncode != 0:
            raise SystemExit(f"{words}: exit code {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def make_images(self, area):
        """(their folder, bytes of an image) with so many times the pixels"""
        if area in self.images:
            return self.images[area]
        store = self.folder / f"images-{area:.3f}"
        said = subprocess.run([self.given.images_python, "-B", __file__, "--make", store, "--area", str(area),
                               *(["--images", self.given.images] if self.given.images else [])], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        self.images[area] = store, json.loads(said)
        return self.images[area]

    def decode_seconds(self, area):
        """Of processor time, for the images of a step."""
        store, _ = self.make_images(area)
        shard = store / "data" / DATA / "train" / "train-00000-of-00001.tar"
        said = self.mlbench(self.folder / "home", "bench", "decode", str(shard), "--crop", "evaluation", "--threads",
                            str(WORKERS), "--rounds", "3", "--seconds", "1s")
        return BATCH / said["median_samples_per_cpu_s"]

    def calibrate(self):
        """Decoding takes a time that grows with the pixels, and some more."""
        self.decode_s = self.decode_seconds(1)
        self.decode_s_per_area = (self.decode_seconds(LARGE) - self.decode_s) / (LARGE - 1)

    def area_for(self, factor):
        """So many times the pixels take `factor` times as long to decode."""
        return 1 + (factor - 1) * self.decode_s / self.decode_s_per_area

    def shape_loopback(self, bytes_per_second):
        netns.call("tc", "-n", self.network.space("h1"), "qdisc", "add", "dev", "lo", "root", "tbf", "rate",
                   f"{round(8 * bytes_per_second)}bit", "burst", str(LO_BURST), "latency", netns.WAIT)

    def release(self):
        self.network.shape("h2", None)
        netns.call("tc", "-n", self.network.space("h1"), "qdisc", "replace", "dev", "lo", "root", "noqueue")

    def study(self, name, times, factor, slowed):
        store, image_bytes = self.make_images(self.area_for(factor) if slowed == "decode" else 1)
        home = self.folder / "home"
        server = self.network.start("h2", [sys.executable, "-B", __file__, "--serve", store], stdout=subprocess.PIPE)
        try:
            server.stdout.readline()
            place = f"s3://{BUCKET}/data"
            self.mlbench(home, "data", "prepare", DATA, "--data-dir", place)
            link = image_bytes * BATCH * WORKERS / times["read"] / PAYLOAD
            self.network.shape("h2", f"{link * 8 / 1e6:.3f}mbit")
            # Each of two ranks sends its whole gradient once, and all of it passes through one loopback.
            self.shape_loopback(WORKERS * 4 * PARAMETERS / times["exchange"])
            document = self.mlbench(home, "study", "ddl", name, "--local", "--task", self.folder / "task.toml", "--data", DATA,
                                    "--input", place, "--workers", str(WORKERS), "--compute",
                                    f"emulated={times['compute'] * 1e3:.3f}ms", "--framework", "native", "--backend", "gloo",
                                    "-c", "1", "--decoding-threads", "1", "--max-steps", str(STEPS), "--format", "json", "-o",
                                    self.folder / f"tables-{name}")
            return document["rows"][0]
        finally:
            self.release()
            server.terminate()
            server.wait()
            if slowed == "decode":
                shutil.rmtree(store)


def trial_of(lab, number, seed, slowed):
    times, factor = times_of(seed, slowed, lab.decode_s)
    begin = time.monotonic()
    row = lab.study(f"t{number}", times, factor, slowed)
    verdict = row["bottleneck"]
    named = verdict["stage"] if verdict["kind"] == "named" else None
    return {"seed": seed, "slowed": slowed, "factor": factor, "set_s": times, "named": named, "kind": verdict["kind"],
            "text": verdict["text"], "right": named == slowed and (slowed is not None or verdict["kind"] == "balanced"),
            "step_s": row["step_s"], "alone_s": {stage: row[f"{stage}_alone_s"] for stage in STAGES},
            "waited_for_data_s": row["waited_for_data_s"], "took_s": time.monotonic() - begin}


def summary_of(trials):
    slowed = [trial for trial in trials if trial["slowed"]]
    balanced = [trial for trial in trials if not trial["slowed"]]
    right, nobody = sum(trial["right"] for trial in slowed), sum(trial["named"] is None for trial in balanced)
    return {"slowed": len(slowed), "right": right, "balanced": len(balanced), "nobody_named": nobody,
            "met": right >= RIGHT * len(slowed) and nobody == len(balanced)}


def line_of(trial):
    slowed = f"{trial['slowed']}, {trial['factor']:.2f} times" if trial["slowed"] else "none"
    return f"| {trial['seed']} | {slowed} | {trial['named'] or trial['kind']} | {'right' if trial['right'] else 'wrong'} | {trial['text']} |"


def table_of(document):
    summary = document["summary"]
    lines = ["| seed | slowed | named | | the study says |", "|---|---|---|---|---|", *map(line_of, document["trials"]), "",
             f"{summary['right']} of {summary['slowed']} slowed stages were named. Nobody was named in "
             f"{summary['nobody_named']} of {summary['balanced']} balanced trials."]
    return "\n".join(lines)


def main():
    parser = ratio.parser_of(__doc__, "ddl-trials.json")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--balanced", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--images", help="a tar file of JPEGs that are made larger (default: made images)")
    parser.add_argument("--images-python", default="/usr/bin/python3", help="one with Pillow (default: %(default)s)")
    parser.add_argument("--serve", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--area", type=float, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve)
    if given.make:
        return write_shards(given.make, given.area, given.images)
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    given.bin = given.bin.resolve()
    if reason := netns.missing():
        sys.exit(f"ddl_trials.py needs {reason}")
    with tempfile.TemporaryDirectory(prefix="mlt", dir="/tmp") as folder, \
            netns.Network(2, pathlib.Path(folder, "net")) as network:
        lab = Lab(given, pathlib.Path(folder), network)
        lab.calibrate()
        document = {"date": ratio.now()[:10], "machine": ratio.machine(), "seed": given.seed,
                    "decode_s": lab.decode_s, "decode_s_per_area": lab.decode_s_per_area, "trials": []}
        for number, (seed, slowed) in enumerate(plan(given)):
            document["trials"].append(trial_of(lab, number, seed, slowed))
            print(line_of(document["trials"][-1]), flush=True)
            document["summary"] = summary_of(document["trials"])
            ratio.write(given.output, document)
    print(json.dumps(document["summary"]))
    return 0 if document["summary"]["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
