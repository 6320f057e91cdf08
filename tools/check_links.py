"""Checks what the programs link: mlbench no part of the data plane; a worker Gloo before LibTorch, and LibTorch before
oneDNN. LibTorch exports symbols of newer copies of both (cmake/MlbenchLibraries.cmake). TensorFlow, which exports those
of many libraries, is linked by none: its worker loads it as a module.

usage: check_links.py MLBENCH [WORKER...]
"""

import re
import subprocess
import sys

DATA_PLANE = ("libtorch", "libc10", "libgloo", "libmpi", "libnccl", "libcud", "libdnnl", "libtensorflow")
ORDER = ("libgloo", "libtorch_cpu", "libdnnl")


def libraries(program: str) -> list[str]:
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)


def main(control: str, *workers: str) -> int:
    wrong = [name for name in libraries(control) if name.startswith(DATA_PLANE)]
    if wrong:
        print(f"{control} links {', '.join(wrong)}: they belong to the worker")
        return 1
    for worker in workers:
        found = [library for name in libraries(worker) for library in ORDER if name.startswith(library + ".so")]
        expected = [library for library in ORDER if library in found]
        if found != expected or "libtorch_cpu" not in found:
            print(f"{worker} names {', '.join(found)} in this order; expected {', '.join(expected)}")
            return 1
        if any(name.startswith("libtensorflow") for name in libraries(worker)):
            print(f"{worker} links TensorFlow: it is to load it as a module")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
