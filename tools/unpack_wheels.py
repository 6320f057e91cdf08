"""Unpacks of the wheels in one folder what mlbench compiles and runs with.

usage: unpack_wheels.py libtorch|nccl|tensorflow WHEELS TREE
"""

import pathlib
import sys
import zipfile

# Folders of headers, and libraries.
WANTED = {
    # On a CPU. The other headers of the wheel shadow the system's (cmake/FindLibTorch.cmake); libtorch_cpu asks for the
    # last two libraries even where there is no GPU.
    "libtorch": (
        tuple(f"torch/include/{folder}/" for folder in ("ATen", "c10", "caffe2", "torch")),
        ("libtorch_cpu.so", "libc10.so", "libgomp.so", "libcupti.so", "libcudart.so"),
    ),
    "nccl": (("nvidia/nccl/include/", "nvidia/cu13/include/"), ("libnccl.so", "libcudart.so")),
    # The C API, and what its headers include.
    "tensorflow": (
        tuple(
            f"tensorflow/include/{folder}"
            for folder in (
                "tensorflow/c/",
                "tensorflow/core/common_runtime/next_pluggable_device/c/",
                "tensorflow/core/platform/ctstring",
                "tsl/platform/",
                "xla/tsl/c/",
            )
        ),
        ("libtensorflow_cc.so", "libtensorflow_framework.so", "THIRD_PARTY_NOTICES"),
    ),
}


def main(kind: str, wheels: str, tree: str) -> None:
    headers, libraries = WANTED[kind]

    def wanted(name: str) -> bool:
        path = pathlib.PurePosixPath(name)
        if path.parent.name in ("lib", "tensorflow") and path.name.startswith(libraries):
            return True
        return name.startswith(headers) or (
            ".dist-info/" in name and path.name.lower().startswith(("license", "notice"))
        )

    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tree, [name for name in archive.namelist() if wanted(name)])


if __name__ == "__main__":
    main(*sys.argv[1:])
