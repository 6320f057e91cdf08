"""Installs what was built as others do, and runs it there.

usage: packages_test.py wheel|install|debian|images

  wheel     the Python client and the paths of mlbench_core as wheels, in an environment of their own
  install   cmake --install, run where neither the source tree nor LibTorch's wheels can be seen; and its removal
  debian    Debian packages in a bare Debian 12, run by a user of it; and their removal
  images    images of these packages, on a base made of a bare Debian 12
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["MLBENCH_TEST_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["MLBENCH_TEST_BINARY_DIR"])
VERSION = os.environ["MLBENCH_TEST_VERSION"]
CMAKE, CPACK = os.environ["MLBENCH_TEST_CMAKE"], os.environ["MLBENCH_TEST_CPACK"]
TENSORFLOW = "mlbench-worker-tensorflow"
OPTIONAL = (TENSORFLOW,) if (BUILD / "bin" / TENSORFLOW).exists() else ()
WORKERS = ("mlbench-worker", *OPTIONAL)
LINKED = ("mlbench", "mlbench-lmdb", "mlbench-pieces", *WORKERS)  # with shared libraries
PROGRAMS = (*LINKED, "mlbench-guard")
PACKAGES = ("mlbench", "mlbench-libtorch", *WORKERS, *(["mlbench-libtensorflow"] if OPTIONAL else []))
USER = 10001  # of nobody on this machine


def skip(reason: str):
    """As GoogleTest tells a skip, for tools/list_skips.py."""
    print(f"{__file__}: Skipped\nmissing capability: {reason}\n\n[  SKIPPED ] Packages.{'_'.join(sys.argv[1:])} (0 ms)")
    sys.exit(0)


def need_root():
    if os.geteuid() != 0:
        skip("root, to make a root file system or to hide folders")


def need(*programs: str):
    for program in programs:
        if shutil.which(program) is None:
            skip(f"{program} (tools/setup.sh package packages)")


def run(*command, seconds: float = 300, wrapped: int = 0, **options) -> str:
    """Standard output; exits with everything that was said where the command fails. The first `wrapped` words are not
    shown while it does not."""
    words = [str(word) for word in command]
    print("$", shlex.join(words[wrapped:]), flush=True)
    options = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    } | options
    done = subprocess.run(words, timeout=seconds, **options)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode} of {shlex.join(words)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def expect(what: bool, otherwise: str):
    if not what:
        sys.exit(otherwise)


@contextlib.contextmanager
def work_folder():
    """Outside of the source tree, which is to be hidden; readable for other users."""
    with tempfile.TemporaryDirectory(prefix="mlbench-packages-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def check_program(mlbench, home: str, record, backends=("gloo",), optional=OPTIONAL):
    """Runs an installed mlbench: mlbench(*arguments) gives its output, record(name) the text of a run's record; optional:
    which optional worker programs are installed."""
    built = BUILD / "bin/mlbench"
    version = mlbench("--version")
    expect(version == run(built, "--version") and VERSION in version, f"another version: {version}")
    names = [task["name"] for task in json.loads(mlbench("list", "tasks", "--json"))]
    expect(names == [task["name"] for task in json.loads(run(built, "list", "tasks", "--json"))], f"tasks: {names}")
    frameworks = {row["name"]: row for row in json.loads(mlbench("list", "frameworks", "--json", "--home", home))}
    told = frameworks["tensorflow"]
    expect(told["program"] == TENSORFLOW and told["available"] == bool(optional), f"framework tensorflow: {told}")
    expect(bool(optional) or f"the package {TENSORFLOW}" in told["reason"], f"no way to tensorflow: {told}")
    for backend, framework in itertools.product(backends, ["torch", *(["tensorflow"] if optional else [])]):
        name = f"{framework}-{backend}"
        options = ("--task", "mnist", "--synthetic", "--max-steps", "3", "--local", "--backend", backend)
        mlbench("run", name, "2", *options, "--framework", framework, "--home", home)
        told = json.loads(record(f"{name}-2"))
        expect(told["state"] == "finished", f"{name}-2: {told['state']}")
        expect(told["exit_codes"] == [0, 0], f"{name}-2 ended with {told['exit_codes']}")
        steps = [segment["steps"] for segment in told["segments"]]
        expect(steps == [3], f"{name}-2 took {steps} steps")


# What belongs to nobody and is found by nobody: a program that misses one does not start.
def check_libraries(ldd, programs):
    for program in programs:
        missing = re.findall(r".*not found", ldd(program))
        expect(not missing, f"{program}: {missing}")


def wheel():
    python = shutil.which("python3", path="/usr/bin:" + os.environ["PATH"])
    for module in ("pip", "setuptools", "wheel", "venv"):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode != 0:
            skip(f"Python's {module} (tools/setup.sh package packages)")
    with work_folder() as folder:
        # A copy: setuptools builds beside its sources.
        shutil.copytree(SOURCE / "python", folder / "python")
        options = ("--no-build-isolation", "--no-index", "--no-deps")
        run(python, "-m", "pip", "wheel", *options, "--wheel-dir", folder, folder / "python", folder / "python/core")
        made = sorted(folder.glob("*.whl"))
        names = [f"mlbench_{name}-{VERSION}-py3-none-any.whl" for name in ("client", "compat")]
        expect([one.name for one in made] == names, f"wheels {made}")
        run(python, "-m", "venv", "--without-pip", folder / "venv")
        own = folder / "venv/bin/python3"
        [packages] = (folder / "venv/lib").glob("python3*/site-packages")
        run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--target", packages, *made)
        held = {path.relative_to(packages).as_posix() for path in packages.rglob("*") if path.is_file()}
        licences = [name for name in held if name.endswith("dist-info/LICENSE")]
        expect(len(licences) == 2, f"licences {licences} among {sorted(held)}")
        code = "import mlbench; print(mlbench.__file__, mlbench.Tracker.__name__, mlbench.TopKAccuracy(topk=1).name)"
        said = run(own, "-I", "-c", code, cwd=folder)
        expect(said.startswith(str(packages)), f"another module: {said}")
        code = "import sys; from mlbench_core import utils as u; "
        code += "print(u.__file__, u.Tracker.__base__.__module__, 'torch' in sys.modules)"
        said = run(own, "-I", "-c", code, cwd=folder)
        expect(said.startswith(str(packages)) and said.endswith(" mlbench.tracker False\n"), f"another module: {said}")


def install():
    need_root()
    need("unshare", "mount", "ldd")
    with work_folder() as folder:
        prefix = folder / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", prefix, cwd="/")
        for worker in WORKERS:
            [runpath] = re.findall(
                r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", run("readelf", "-d", prefix / "lib/mlbench" / worker)
            )
            expect(all(runpath.split(":")) and "$ORIGIN/libtorch/torch/lib" in runpath, f"{worker}'s RUNPATH: {runpath}")
            for path in runpath.split(":"):
                expect(
                    path.startswith(("$ORIGIN/", "/usr/")), f"{worker}'s RUNPATH names a folder of this machine: {path}"
                )

        hidden = [SOURCE, BUILD, (BUILD / "bin/libtorch/torch/lib").resolve().parents[1]]  # one may lie in another
        hidden += [(BUILD / "bin/libtensorflow").resolve() for _ in OPTIONAL]
        hide = "; ".join('[[ ! -d $1 ]] || mount -t tmpfs tmpfs "$1"; shift' for _ in hidden)
        script = f'set -e; {hide}; exec "$@"'

        def alone(*command):
            wrapper = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "alone", *hidden]
            return run(*wrapper, *command, wrapped=len(wrapper), cwd="/", env=clean_environment(folder))

        expect(alone("ls", "-A", SOURCE) == "", "the source tree can still be seen")
        check_libraries(lambda name: alone("ldd", prefix / "lib/mlbench" / name), LINKED)
        home = folder / "home"
        check_program(
            lambda *words: alone(prefix / "bin/mlbench", *words), str(home), lambda name: record_of(home, name)
        )

        for file in (BUILD / "install_manifest.txt").read_text().split("\n"):
            pathlib.Path(file).unlink()
        left = [path for path in prefix.rglob("*") if not path.is_dir()]
        expect(not left, f"the manifest lacks {left}")


def record_of(home: pathlib.Path, name: str) -> str:
    return (home / "runs" / name / "run.json").read_text()


def clean_environment(folder) -> dict:
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "MLBENCH_CORE_LOCK": os.environ.get("MLBENCH_CORE_LOCK", "/tmp/mlbench-cores.lock"),
    }


def make_packages(folder: pathlib.Path) -> pathlib.Path:
    need("dpkg-shlibdeps", "dpkg-deb", "file")
    run(CPACK, "--config", BUILD / "CPackConfig.cmake", "-B", folder / "packed", cwd="/", seconds=900)
    packages = folder / "packages"
    packages.mkdir()
    for made in (folder / "packed").glob("*.deb"):
        made.rename(packages / made.name)
    shutil.rmtree(folder / "packed")
    names = sorted(run("dpkg-deb", "-f", made, "Package").strip() for made in packages.iterdir())
    expect(names == sorted(PACKAGES), f"cpack made {names}")
    for made in packages.iterdir():
        version = run("dpkg-deb", "-f", made, "Version").strip()
        expect(
            re.fullmatch(rf"{re.escape(VERSION)}([~+].+)?", version) is not None, f"{made.name} has version {version}"
        )
        expect("copyright" in run("dpkg-deb", "-c", made), f"{made.name} holds no licence")
    return packages


def make_root(folder: pathlib.Path) -> pathlib.Path:
    """A bare Debian 12, from the mirror that apt of this machine has."""
    lines = run(
        "apt-get",
        "indextargets",
        "Created-By: Packages",
        "Origin: Debian",
        "--format",
        "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
    )
    sources = "".join(line for line in lines.splitlines(keepends=True) if line.split()[2].startswith("bookworm"))
    if not sources:
        skip("apt sources of Debian 12 (bookworm)")
    root = folder / "root"
    if shutil.which("mmdebstrap"):
        (folder / "sources.list").write_text(sources)
        with open(folder / "sources.list") as given:
            run(
                "mmdebstrap",
                "--mode=root",
                "--variant=minbase",
                "--format=directory",
                "bookworm",
                root,
                "-",
                stdin=given,
                seconds=900,
            )
    elif shutil.which("debootstrap"):
        mirror = sources.split()[1]
        run("debootstrap", "--variant=minbase", "bookworm", root, mirror, seconds=900)
        (root / "etc/apt/sources.list").write_text(sources)
    else:
        skip("mmdebstrap or debootstrap (tools/setup.sh package packages)")
    return root


@contextlib.contextmanager
def inside(root: pathlib.Path):
    """inside(root)(*command, user=...) runs a command there; nothing that it started is left behind."""
    script = 'set -e; mount -t proc proc "$1/proc"; mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"; shift; exec "$@"'

    def enter(*command, user: int = 0, seconds: float = 600) -> str:
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "HOME": "/root" if user == 0 else "/home/someone",
        }
        environment |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        wrapper = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
            "bash",
            "-c",
            script,
            "inside",
            root,
        ]
        return run(
            *wrapper,
            "chroot",
            f"--userspec={user}:{user}",
            root,
            *command,
            wrapped=len(wrapper),
            env=environment,
            seconds=seconds,
        )

    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    # Services of packages are not to be started.
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    yield enter


def debian():
    need_root()
    need("unshare", "mount", "chroot", "apt-get")
    with work_folder() as folder:
        packages = make_packages(folder)
        root = make_root(folder)
        packages.rename(root / "packages")
        names = sorted(f"/packages/{made.name}" for made in (root / "packages").iterdir())
        home = root / "home/someone"
        home.mkdir()
        os.chown(home, USER, USER)
        with inside(root) as enter:
            enter("apt-get", "update")
            enter("apt-get", "install", "-y", "--no-install-recommends", *names)
            check_libraries(lambda name: enter("ldd", f"/usr/lib/mlbench/{name}"), LINKED)
            for name in PROGRAMS:
                expect(os.access(root / "usr/lib/mlbench" / name, os.X_OK), f"{name} is not there")

            def mlbench(*words):
                return enter("mlbench", *words, user=USER)

            def record(name):
                return record_of(home / "runs", name)

            check_program(mlbench, "/home/someone/runs", record)
            # What the packages recommend: mpirun.
            enter("apt-get", "install", "-y", "--no-install-recommends", "openmpi-bin")
            check_program(mlbench, "/home/someone/runs", record, backends=("mpi",))
            if OPTIONAL:  # nothing else needs its packages
                enter("apt-get", "purge", "-y", TENSORFLOW, "mlbench-libtensorflow")
                check_program(mlbench, "/home/someone/runs", record, backends=("shm",), optional=())
            enter("apt-get", "purge", "-y", "mlbench", "mlbench-worker", "mlbench-libtorch")
        left = [
            path
            for path in ("usr/lib/mlbench", "usr/bin/mlbench", *(f"usr/bin/{worker}" for worker in WORKERS))
            if os.path.lexists(root / path)
        ]
        expect(not left, f"after purge there are still {left}")


def make_images(folder: pathlib.Path, packages: pathlib.Path, *targets: str):
    """Builds localhost/mlbench-TARGET:test by deploy/docker/build.sh, on a bare Debian 12. Gives the environment in which
    buildah knows them, and buildah(*words), its output."""
    root = make_root(folder)
    storage = {"driver": "vfs", "graphroot": f"{folder}/graph", "runroot": f"{folder}/run"}
    text = "[storage]\n" + "".join(f'{key} = "{value}"\n' for key, value in storage.items())
    (folder / "storage.conf").write_text(text)
    # chroot: no network and no cgroups of its own, which a container engine may lack here.
    environment = dict(os.environ) | {
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
        "BUILDAH_ISOLATION": "chroot",
    }

    def buildah(*words, seconds=300):
        return run("buildah", *words, env=environment, seconds=seconds, cwd="/").strip()

    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, root, "/")
    buildah("commit", "--quiet", "--rm", container, "localhost/bare-debian:12")
    shutil.rmtree(root)
    run(
        SOURCE / "deploy/docker/build.sh",
        "--engine",
        "buildah",
        "--base",
        "localhost/bare-debian:12",
        "--tag",
        "test",
        "--packages",
        packages,
        *targets,
        env=environment,
        seconds=900,
    )
    return environment, buildah


def images():
    need_root()
    need("buildah", "unshare", "ip")
    with work_folder() as folder:
        environment, buildah = make_images(folder, make_packages(folder), "master", "worker")
        for target in ("master", "worker"):
            image = f"localhost/mlbench-{target}:test"
            told = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
            expect(told["User"] == f"{USER}:{USER}", f"{image} runs as {told['User']!r}")
            expect(told["Labels"]["org.opencontainers.image.version"].startswith(VERSION), f"{image}: {told['Labels']}")
            container = buildah("from", image)
            # As the image's user, with its environment.
            expect(VERSION in buildah("run", container, "--", "mlbench", "--version"), "no version")
            expect(buildah("run", container, "--", "id", "-u") == str(USER), "another user")
            if target == "worker":
                catalog = json.loads(buildah("run", container, "--", *told["Cmd"]))
                expect(
                    all(row["available"] for row in catalog["backends"] if row["name"] in ("gloo", "mpi")), f"{catalog}"
                )
                script = "mlbench run x 2 --task mnist --synthetic --max-steps 3 --local && cat $MLBENCH_HOME/runs/x-2/run.json"
                said = buildah("run", container, "--", "sh", "-c", script)
                expect('"finished"' in said, said)
                found = "command -v mlbench-guard mlbench-lmdb mlbench-pieces mpirun"
                buildah("run", container, "--", "sh", "-c", found)
            else:
                # What the image starts, until its own check of health is content.
                check = " ".join(told["Healthcheck"]["Test"][1:])
                start = " ".join(told["Entrypoint"] + told["Cmd"])
                wait = "i=0; until {check}; do i=$((i + 1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done"
                script = f"{start} & {wait.replace('{check}', check)}; kill $!; wait $!"
                alone = [
                    "unshare",
                    "--net",
                    "bash",
                    "-c",
                    'ip link set lo up && exec "$@"',
                    "alone",
                ]  # its port is free
                run(
                    *alone, "buildah", "run", container, "--", "bash", "-c", script, wrapped=len(alone), env=environment
                )
            buildah("rm", container)
            print(buildah("images", "--format", "{{.Name}}: {{.Size}}", image))


if __name__ == "__main__":
    {"wheel": wheel, "install": install, "debian": debian, "images": images}[sys.argv[1]]()
