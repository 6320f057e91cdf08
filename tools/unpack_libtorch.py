"""Unpacks of the wheels in one folder what mlbench compiles and runs with on a CPU.

usage: unpack_libtorch.py WHEELS TREE
"""

import pathlib
import sys
import zipfile

# The other headers of the wheel shadow the system's (cmake/FindLibTorch.cmake).
HEADERS = tuple(f"torch/include/{folder}/" for folder in ("ATen", "c10", "caffe2", "torch"))
# libtorch_cpu asks for the last two even where there is no GPU.
LIBRARIES = ("libtorch_cpu.so", "libc10.so", "libgomp.so", "libcupti.so", "libcudart.so")


def wanted(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    if path.parent.name == "lib":
        return path.name.startswith(LIBRARIES)
    return name.startswith(HEADERS) or (
        ".dist-info/" in name and path.name.lower().startswith(("license", "notice"))
    )


def main(wheels: str, tree: str) -> None:
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tree, [name for name in archive.namelist() if wanted(name)])


if __name__ == "__main__":
    main(*sys.argv[1:])
