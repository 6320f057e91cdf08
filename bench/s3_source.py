#!/usr/bin/env python3
"""Is the reader of objects as fast as a plain parallel one? `mlbench bench storage` beside `curl --parallel`, of the same
objects of a real store, with as many connections: OpenStack Swift with its S3 front end, on this machine.

    s3_source.py [--bin build/release/bin] [--objects 64x4M,800x128K] [--threads 8] [--pairs 21] [--limit 0.9]
                 [--output docs/results/s3-source.json]
    s3_source.py --table [--output FILE]              what is kept, as Markdown

Of each kind of objects, both read all once, in turn, for a number of pairs fixed beforehand. The time is that of the whole
process: start, list and signatures are in it. curl is told all addresses with their signatures. Bytes are counted on both
sides. mlbench compares the MD5 of each object with its ETag, and curl does not. So each kind is read without that, too: both do
the same then, and the difference is the price of the check. Verdicts are those of pairs.py; exits with 1 where one is missed.
Root, and `tools/setup.sh engines`.
"""
import argparse
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse

import pairs
import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "engines"))
import s3_test  # noqa: E402

BUCKET, REGION = "speed", "us-east-1"
UNITS = {"K": 1 << 10, "M": 1 << 20}
ENDS_WITHIN_S, SIGNED_FOR_S = 300, 24 * 3600


def kind_of(text):
    """(objects, bytes of each) of "64x4M"."""
    count, _, size = text.partition("x")
    if not count.isdigit() or not size[:-1].isdigit() or size[-1] not in UNITS:
        raise argparse.ArgumentTypeError(f"'{text}': expected COUNTxSIZE, such as 64x4M or 800x128K")
    return int(count), int(size[:-1]) * UNITS[size[-1]]


def fill(store, name, count, size):
    """Puts the objects into the store."""
    content = bytearray(random.Random(0).randbytes(size))
    for number in range(count):
        content[:8] = number.to_bytes(8, "big")  # no two are the same
        store.put(f"{BUCKET}/{name}/{number:05}", bytes(content))


def signed(endpoint, path, now):
    """The address with a signature in it (Signature Version 4), for whoever cannot sign: curl ends a key at its first colon."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = [stamp[:8], REGION, "s3", "aws4_request"]
    query = urllib.parse.urlencode({"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": "/".join([s3_test.USER, *scope]),
                                    "X-Amz-Date": stamp, "X-Amz-Expires": SIGNED_FOR_S, "X-Amz-SignedHeaders": "host"},
                                   quote_via=urllib.parse.quote, safe="")
    host = urllib.parse.urlsplit(endpoint).netloc
    request = "\n".join(["GET", path, query, f"host:{host}\n", "host", "UNSIGNED-PAYLOAD"])
    key = f"AWS4{s3_test.SECRET}".encode()
    for word in scope:
        key = hmac.digest(key, word.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join(scope), hashlib.sha256(request.encode()).hexdigest()])
    return f"{endpoint}{path}?{query}&X-Amz-Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"


class Readers:
    """Both read all objects of one kind, and say bytes per second."""

    def __init__(self, given, store, name, count, size, folder, unchecked):
        self.total, self.counters = count * size, None
        clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        self.environment = {**clean, "AWS_ACCESS_KEY_ID": s3_test.USER, "AWS_SECRET_ACCESS_KEY": s3_test.SECRET,
                            "AWS_CONFIG_FILE": "/nonexistent"}
        self.ours = [given.bin / "mlbench", "bench", "storage", f"s3://{BUCKET}/{name}", "--s3-endpoint", store.endpoint,
                     "--threads", str(given.threads), "--range", "object", "--seconds", f"{ENDS_WITHIN_S}s", "--json",
                     *(["--unchecked"] if unchecked else [])]
        addresses = folder / f"{name}.curl"
        now = datetime.datetime.now(datetime.timezone.utc)
        places = [signed(store.endpoint, f"/{BUCKET}/{name}/{number:05}", now) for number in range(count)]
        addresses.write_text("".join(f'url = "{place}"\noutput = "/dev/null"\n' for place in places))
        self.curl = ["curl", "--config", addresses, "--parallel", "--parallel-max", str(given.threads), "--silent",
                     "--show-error", "--fail", "--write-out", "%{size_download}\\n"]

    def run(self, words):
        begin = time.monotonic()
        done = subprocess.run([str(word) for word in words], env=self.environment, check=True, stdout=subprocess.PIPE,
                              text=True, timeout=2 * ENDS_WITHIN_S)
        return done.stdout, self.total / (time.monotonic() - begin)

    def check(self, who, count):
        if count != self.total:
            raise SystemExit(f"s3_source.py: {who} read {count} bytes of {self.total}")

    def by_mlbench(self):
        said, rate = self.run(self.ours)
        document = json.loads(said)
        self.check("mlbench", document["bytes"])
        self.counters = document["counters"]
        return rate

    def by_curl(self):
        said, rate = self.run(self.curl)
        self.check("curl", sum(map(int, said.split())))
        return rate


def compare(given, store, folder, count, size, unchecked):
    readers = Readers(given, store, f"{count}x{size}", count, size, folder, unchecked)
    for warm_up in (readers.by_mlbench, readers.by_curl):
        warm_up()
    ours, curl = pairs.measure(readers.by_mlbench, readers.by_curl, given.pairs, ratio.say)
    return {"objects": count, "object_bytes": size, "threads": given.threads, "unchecked": unchecked,
            "check_s": readers.counters["check_s"], "pairs": given.pairs, "limit": given.limit,
            **ratio.figures(ours, curl, given.limit), "copies_per_byte": readers.counters["copied_bytes"] / readers.counters["bytes"],
            "retries": readers.counters["retries"], "ours_bytes_per_s": ours, "peer_bytes_per_s": curl}


def table_of(document):
    return ratio.table("| objects | compared | here, MB/s | curl, MB/s | ratio | limit | |", (
        f"{row['objects']:,} of {row['object_bytes'] >> 10:,} KiB | {'no' if row['unchecked'] else 'yes'} | "
        f"{row['ours_median'] / 1e6:.0f} | {row['peer_median'] / 1e6:.0f} | "
        f"{ratio.with_interval(row['ratio'], row['interval_95'])} | {row['limit']} | {row['verdict']}" for row in document["rows"]))


def main():
    parser = ratio.parser_of(__doc__, "s3-source.json")
    parser.add_argument("--objects", type=lambda text: [kind_of(one) for one in text.split(",")],
                        default=[kind_of("64x4M"), kind_of("800x128K")], help="COUNTxSIZE,...")
    parser.add_argument("--threads", type=int, default=8, help="connections of either side")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--limit", type=float, default=0.9)
    given = parser.parse_args()
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    if lack := s3_test.missing():
        sys.exit(f"s3_source.py needs {lack}")
    document = {"date": ratio.now()[:10], "machine": ratio.machine(),
                "peer": subprocess.run(["curl", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0],
                "rows": []}
    with tempfile.TemporaryDirectory(prefix="mls3", dir="/var/tmp") as folder:
        store = s3_test.Swift(pathlib.Path(folder))
        try:
            store.put(BUCKET)
            for count, size in given.objects:
                fill(store, f"{count}x{size}", count, size)
                for unchecked in (False, True):
                    document["rows"].append(compare(given, store, pathlib.Path(folder), count, size, unchecked))
                    ratio.write(given.output, document)
        finally:
            store.stop()
    print(table_of(document))
    return 1 if any(row["verdict"] == "missed" for row in document["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
