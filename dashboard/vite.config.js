// `vite build` writes dist/, which is committed and put into the program mlbench. It has to come out the same
// everywhere: fixed file names, no times, no hashes of paths.
import {readFileSync} from 'node:fs';
import {defineConfig} from 'vite';
import {sourcesHash} from './test/sources.mjs';

const LIBRARIES = ['preact', 'uplot'];

// What others wrote goes out with their licences; the hash lets a test without Node see that dist/ is not of these
// sources.
function companions() {
  return {
    name: 'companions',
    generateBundle() {
      const texts = LIBRARIES.map((name) => {
        const {version} = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'));
        return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}\n`;
      });
      this.emitFile({type: 'asset', fileName: 'assets/licences.txt', source: texts.join('\n\n')});
      this.emitFile({type: 'asset', fileName: 'assets/sources.txt', source: `${sourcesHash()}\n`});
    },
  };
}

// `npm run dev` shows the sources against a master that runs: MLBENCH_URL, and its token in MLBENCH_TOKEN.
const master = process.env.MLBENCH_URL ?? 'http://127.0.0.1:8080';
const headers = {Origin: master};
if (process.env.MLBENCH_TOKEN) headers.Authorization = `Bearer ${process.env.MLBENCH_TOKEN}`;

export default defineConfig({
  plugins: [companions()],
  server: {host: '127.0.0.1', proxy: {'/api': {target: master, changeOrigin: true, headers}}},
  build: {
    target: 'es2022',
    modulePreload: {polyfill: false},
    cssCodeSplit: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        entryFileNames: 'assets/app.js',
        assetFileNames: 'assets/app[extname]',
        codeSplitting: false,
      },
    },
  },
});
