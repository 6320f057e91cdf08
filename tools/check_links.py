"""Checks what the two programs link: mlbench no part of the data plane; mlbench-worker Gloo before LibTorch, and
LibTorch before oneDNN. LibTorch exports symbols of newer copies of both (cmake/MlbenchLibraries.cmake).

usage: check_links.py MLBENCH [MLBENCH_WORKER]
"""

import re
import subprocess
import sys

DATA_PLANE = ("libtorch", "libc10", "libgloo", "libmpi", "libnccl", "libcud", "libdnnl")
ORDER = ("libgloo", "libtorch_cpu", "libdnnl")


def libraries(program: str) -> list[str]:
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)


def main(control: str, worker: str | None = None) -> int:
    wrong = [name for name in libraries(control) if name.startswith(DATA_PLANE)]
    if wrong:
        print(f"{control} links {', '.join(wrong)}: they belong to the worker")
        return 1
    if worker:
        found = [library for name in libraries(worker) for library in ORDER if name.startswith(library + ".so")]
        expected = [library for library in ORDER if library in found]
        if found != expected or "libtorch_cpu" not in found:
            print(f"{worker} names {', '.join(found)} in this order; expected {', '.join(expected)}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
