"""dashboard/dist was built from the sources that lie beside it: compares the hash that the build left there. And what a
page compares runs by comes from the master (GET /compare, GET /scaling), which alone knows what may be compared.

Needs no Node. That the build gives the same files byte by byte is test/verify_dist.mjs.
"""

import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sources_hash(root: pathlib.Path) -> str:
    files = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.js"]
    for folder in ("public", "src"):
        files += [str(path.relative_to(root)) for path in (root / folder).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted(files):
        text = (root / name).read_bytes()
        digest.update(f"{name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


SHOWN_ONLY = r"(time_to_goal_s|samples_per_s|\btrain_s|wall_s|speed_up|efficiency)[)!]*"


def computed_ratios(root: pathlib.Path) -> list[str]:
    """lines of the pages Compare, Scaling and Timeline that divide or multiply figures of runs, and speed-ups named elsewhere."""
    found = []
    for path in sorted((root / "src").rglob("*.ts*")):
        name = str(path.relative_to(root / "src"))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r"^import .*|//.*", "", line)
            if name in ("comparison.ts", "pages/compare.tsx", "pages/scaling.tsx", "pages/timeline.tsx"):
                wrong = re.search(SHOWN_ONLY + r"\s*[/*]|[/*]\s*[\w.!\[\]?]*" + SHOWN_ONLY, code)
            else:
                wrong = name != "types.ts" and re.search(r"speed_up|efficiency", code)
            if wrong:
                found.append(f"dashboard/src/{name}:{number}: {wrong.group()}")
    return found


def main() -> int:
    if ratios := computed_ratios(ROOT):
        print("ratios of runs are the master's (GET /compare, GET /scaling), not the page's:", *ratios, sep="\n  ")
        return 1
    built_from = (ROOT / "dist/assets/sources.txt").read_text().strip()
    if built_from != sources_hash(ROOT):
        print("dashboard/dist is not of these sources: cd dashboard && npm ci && npm run build")
        return 1
    lock = (ROOT / "package-lock.json").read_text()
    if '"resolved"' in lock:
        print("dashboard/package-lock.json names a registry: run npm in dashboard/, where .npmrc prevents it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
