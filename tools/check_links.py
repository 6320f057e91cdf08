"""Checks what the two programs link: mlbench no part of the data plane; mlbench-worker Gloo
before LibTorch, whose own, newer copy of Gloo's symbols would win otherwise.

usage: check_links.py MLBENCH [MLBENCH_WORKER]
"""

import re
import subprocess
import sys

DATA_PLANE = ("libtorch", "libc10", "libgloo", "libmpi", "libnccl", "libcud")


def libraries(program: str) -> list[str]:
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)


def position(needed: list[str], library: str) -> int:
    return next(i for i, name in enumerate(needed) if name.startswith(library))


def main(control: str, worker: str | None = None) -> int:
    wrong = [name for name in libraries(control) if name.startswith(DATA_PLANE)]
    if wrong:
        print(f"{control} links {', '.join(wrong)}: they belong to the worker")
        return 1
    if worker:
        needed = libraries(worker)
        if position(needed, "libgloo") > position(needed, "libtorch_cpu"):
            print(f"{worker} names LibTorch before Gloo; see mlbench_gloo in cmake/MlbenchLibraries.cmake")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
