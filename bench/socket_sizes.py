#!/usr/bin/env python3
"""What does Gloo add to plain sockets at 16 to 128 KiB? There it once waited 22 to 68 ms for an acknowledgement.

    socket_sizes.py [--bin build/release/bin] [--pairs 21] [--iterations 200] [--output FILE]
    socket_sizes.py --table [--output FILE]         what is kept, as Markdown

Each pair measures all sizes, from small to large, in three ways: as messages to and fro between two processes over a TCP
connection of the loopback, of which half the time counts; and as two collectives of `mlbench bench collectives` with two
ranks. Which way begins alternates. Prints a line per pair and writes the JSON. Wants two idle cores.
"""
import json
import multiprocessing
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

import pairs
import ratio

SIZES_KIB = [16, 32, 63, 64, 65, 128]
OPERATIONS = ["broadcast", "all_reduce"]
WARMUP = 20


def listener():
    server = socket.create_server(("127.0.0.1", 0))
    return server, server.getsockname()[1]


def receive(connection, buffer):
    view = memoryview(buffer)
    while len(view):
        count = connection.recv_into(view)
        if count == 0:
            raise ConnectionError("the other process is gone")
        view = view[count:]


def answer(port, sizes, rounds):
    """Sends back what comes, as often as it comes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in sizes:
            buffer = bytearray(size)
            for _ in range(rounds):
                receive(connection, buffer)
                connection.sendall(buffer)


def sockets(iterations):
    """{KiB: the times of one way in us}"""
    sizes = [kib * 1024 for kib in SIZES_KIB]
    server, port = listener()
    other = multiprocessing.Process(target=answer, args=(port, sizes, WARMUP + iterations))
    other.start()
    times = {}
    with server, server.accept()[0] as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for kib, size in zip(SIZES_KIB, sizes):
            buffer, measured = bytearray(size), []
            for _ in range(WARMUP + iterations):
                begin = time.perf_counter()
                connection.sendall(buffer)
                receive(connection, buffer)
                measured.append((time.perf_counter() - begin) / 2 * 1e6)
            times[kib] = measured[WARMUP:]
    other.join()
    return {kib: {"p50": statistics.median(of_size), "max": max(of_size)} for kib, of_size in times.items()}


def collectives(given, operation, folder):
    """{KiB: the times of an iteration in us}"""
    file = pathlib.Path(folder) / f"{operation}.json"
    counts = ",".join(str(kib * 256) for kib in SIZES_KIB)
    subprocess.run([given.bin / "mlbench", "bench", "collectives", operation, "-k", "2", "--backend", "gloo", "--counts", counts,
                    "--iters", str(given.iterations), "--warmup-iters", str(WARMUP), "--form", "in_place", "--name", operation,
                    "--local", "--output-file", file, "--home", pathlib.Path(folder) / "home"],
                   check=True, stdout=subprocess.DEVNULL)
    document = json.loads(file.read_text())
    if document["oversubscribed"]:
        raise ratio.Failed("two ranks need two cores")
    times = {row["size"] // 1024: row["in_place"]["iterations"] for row in document["results"]}
    return {kib: {"p50": times[kib]["p50"], "max": times[kib]["max"]} for kib in SIZES_KIB}


def rows_of(measured):
    for operation in OPERATIONS:
        for kib in SIZES_KIB:
            ours = [pair[operation][kib] for pair in measured]
            plain = [pair["sockets"][kib] for pair in measured]
            ratios = [one["p50"] / other["p50"] for one, other in zip(ours, plain)]
            yield {"operation": operation, "kib": kib, "us": statistics.median(one["p50"] for one in ours),
                   "sockets_us": statistics.median(one["p50"] for one in plain), "ratio": statistics.median(ratios),
                   "interval_95": pairs.interval(ratios), "longest_us": max(one["max"] for one in ours),
                   "sockets_longest_us": max(one["max"] for one in plain)}


def table_of(document):
    return ratio.table("| operation | KiB | us | plain sockets, us | ratio | longest, us | of plain sockets |", (
        f"{row['operation']} | {row['kib']} | {row['us']:.1f} | {row['sockets_us']:.1f} | "
        f"{ratio.with_interval(row['ratio'], row['interval_95'])} | {row['longest_us']:,.0f} | {row['sockets_longest_us']:,.0f}"
        for row in document["rows"]))


def main():
    parser = ratio.parser_of(__doc__, "socket-sizes.json")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--iterations", type=int, default=200)
    given = parser.parse_args()
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    document = {"date": ratio.now()[:10], "machine": ratio.machine(), "load_before": os.getloadavg()[0],
                "iterations": given.iterations}
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.pairs):
            sides = {"sockets": lambda: sockets(given.iterations),
                     **{name: lambda name=name: collectives(given, name, folder) for name in OPERATIONS}}
            order = list(sides) if number % 2 == 0 else list(reversed(sides))
            measured.append({name: sides[name]() for name in order})
            print(json.dumps(measured[-1]), flush=True)
    document |= {"rows": list(rows_of(measured)), "pairs": measured}
    ratio.write(given.output, document)
    print(table_of(document))
    return None


if __name__ == "__main__":
    main()
