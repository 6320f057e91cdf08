"""dashboard/dist was built from the sources that lie beside it: compares the hash that the build left there.

Needs no Node. That the build gives the same files byte by byte is test/verify_dist.mjs.
"""

import hashlib
import pathlib
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


def main() -> int:
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
