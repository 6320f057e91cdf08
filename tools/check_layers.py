"""Checks the includes, headers and guarded calls of src/mlbench against tools/layers.toml.

usage: check_layers.py [ROOT]

Prints FILE:LINE: RULE for each violation; exits 1 if there is one.
"""

import pathlib
import re
import sys
import tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef)\b")
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


class Layers:
    def __init__(self, rules: dict):
        groups = rules["groups"]
        self.modules = {
            name: {d for dep in deps for d in (groups[dep[1:]] if dep.startswith("@") else [dep])}
            for name, deps in rules["modules"].items()
        }
        self.back_ends_of = rules["back_ends"]["of"]
        self.no_back_ends = rules["back_ends"]["except"]
        self.headers = rules["headers"]
        self.calls = rules["calls"]
        self.words = {re.compile(word): row for word, row in rules["words"].items()}

    def module(self, path: str) -> str | None:
        """The longest listed folder that holds a path relative to src/mlbench."""
        return max((m for m in self.modules if inside(path, m)), key=len, default=None)

    def back_end(self, path: str) -> str | None:
        """The back-end folder that holds a file, e.g. comm/gloo."""
        parts = path.split("/")
        folder = "/".join(parts[:2])
        is_one = len(parts) > 2 and parts[0] in self.back_ends_of and folder not in self.no_back_ends
        return folder if is_one else None

    def check_own_include(self, path: str, included: str):
        module, target = self.module(path), self.module(included)
        if target is None:
            yield f"includes {included}, which belongs to no module of layers.toml"
        elif target != module and target not in self.modules[module]:
            allowed = ", ".join(sorted(self.modules[module])) or "nothing"
            yield f"{module} includes {target}; it may include {allowed}"
        back_end = self.back_end(included)
        if back_end and not inside(path, back_end) and not inside(path, "catalog"):
            yield f"includes the back end {back_end}, which only catalog/ may name"

    def check_outside_include(self, path: str, included: str):
        for header, folders in self.headers.items():
            if included.startswith(header) and not any(inside(path, folder) for folder in folders):
                yield f"includes <{included}>, which belongs to {', '.join(folders) or 'nobody'}"

    def check_calls(self, path: str, line: str):
        for call, row in self.calls.items():
            if call in line and path not in row["only"]:
                yield f"calls {call}...), which only {', '.join(row['only'])} may; use {row['use']}"

    def check_words(self, path: str, line: str):
        if line.lstrip().startswith("//"):
            return
        for word, row in self.words.items():
            if path not in row["only"] and any(word.search(text) for text in TEXT.findall(line)):
                yield f"spells what {', '.join(row['only'])} alone may; use {row['use']}"

    def check_file(self, path: str, text: str):
        """Violations of one file as (line, rule); path is relative to src/mlbench."""
        is_header = path.endswith((".h", ".inc"))
        lines = text.splitlines()
        if is_header and "#pragma once" not in lines:
            yield 1, "header without #pragma once"
        if self.module(path) is None:
            yield 1, "belongs to no module of layers.toml"
            return
        is_test = re.search(r"_test\.(h|cpp)$", path)
        for number, line in enumerate(lines, 1):
            if is_header and USING_NAMESPACE.match(line):
                yield number, "using namespace in a header"
            if CONDITIONAL.match(line) and not self.back_end(path):
                yield number, "#if outside a back-end folder; let CMake choose the source file"
            if not is_test:
                for rule in (*self.check_calls(path, line), *self.check_words(path, line)):
                    yield number, rule
            include = INCLUDE.match(line)
            if not include:
                continue
            quote, included = include.groups()
            if quote == '"' and not included.startswith("mlbench/"):
                yield number, f'"{included}" is to be named from the root, as "mlbench/<module>/<file>"'
            elif is_test:
                continue
            elif quote == '"':
                for rule in self.check_own_include(path, included.removeprefix("mlbench/")):
                    yield number, rule
            else:
                for rule in self.check_outside_include(path, included):
                    yield number, rule


def check(root: pathlib.Path, layers: Layers):
    source = root / "src" / "mlbench"
    for module in layers.modules:
        if (source / module).is_dir() and not (source / module / "README.md").is_file():
            yield f"src/mlbench/{module}/README.md:1: is missing"
    for file in sorted(source.rglob("*")):
        if file.suffix in (".h", ".inc", ".cpp"):
            path = file.relative_to(source).as_posix()
            for line, rule in layers.check_file(path, file.read_text()):
                yield f"{file.relative_to(root)}:{line}: {rule}"


def main() -> int:
    here = pathlib.Path(__file__).resolve().parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent
    with open(here / "layers.toml", "rb") as rules:
        layers = Layers(tomllib.load(rules))
    violations = list(check(root, layers))
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
