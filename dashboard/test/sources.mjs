// The hash of all that dist/ is made of. check_sources.py computes the same one.
import {createHash} from 'node:crypto';
import {readdirSync, readFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');

export function sourcesHash() {
  const files = ['index.html', 'package.json', 'package-lock.json', 'tsconfig.json', 'vite.config.js'];
  for (const folder of ['public', 'src']) {
    for (const entry of readdirSync(join(ROOT, folder), {recursive: true, withFileTypes: true})) {
      if (entry.isFile()) files.push(join(entry.parentPath, entry.name).slice(ROOT.length + 1));
    }
  }
  const hash = createHash('sha256');
  for (const file of files.sort()) {
    const text = readFileSync(join(ROOT, file));
    hash.update(`${file} ${text.length}\n`).update(text);
  }
  return hash.digest('hex');
}
