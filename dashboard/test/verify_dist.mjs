// Builds the page again and compares it with dist/, byte by byte.
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'vite';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const made = mkdtempSync(join(tmpdir(), 'mlbench-dist-'));
process.chdir(root);

const filesOf = (folder) => readdirSync(folder, {recursive: true, withFileTypes: true})
  .filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();

try {
  await build({root, logLevel: 'warn', build: {outDir: made, emptyOutDir: true}});
  const dist = join(root, 'dist');
  const names = [...new Set([...filesOf(made), ...filesOf(dist)])];
  const different = names.filter((name) => {
    try {
      return !readFileSync(join(made, name)).equals(readFileSync(join(dist, name)));
    } catch {
      return true;  // in one of the two alone
    }
  });
  if (different.length !== 0) {
    console.error(`dist/ is not what this build makes: ${different.join(', ')}\nrepeat: cd dashboard && npm ci && npm run build`);
    process.exitCode = 1;
  } else {
    console.log(`dist/ is what this build makes: ${names.length} files`);
  }
} finally {
  rmSync(made, {recursive: true});
}
