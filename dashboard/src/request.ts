// What the dialog for new runs collects, as the request that it is and as the command that says the same. Pure.

export interface Form {
  kind: 'task' | 'command';
  command: string;      // words as a shell would take them; no shell runs
  work_dir: string;
  environment: string;  // one NAME=VALUE per line
  name: string;
  workers: string;      // "1 2 4"
  task: string;
  rules: string;
  variant: string;
  framework: string;
  backend: string;
  executor: string;
  cpus: string;
  gpu: boolean;
  light: boolean;
  synthetic: boolean;
  no_wait: boolean;
  seed: string;
  repeat: string;
  max_steps: string;
  max_epochs: string;
  max_time: string;
  overrides: string;    // one KEY=VALUE per line
}

export const EMPTY: Form = {
  kind: 'task', command: '', work_dir: '', environment: '',
  name: '', workers: '1', task: '', rules: '', variant: '', framework: '', backend: '', executor: '', cpus: '', gpu: false, light: false,
  synthetic: false, no_wait: false, seed: '', repeat: '', max_steps: '', max_epochs: '', max_time: '', overrides: '',
};

export type RunRequest = Record<string, string | boolean | string[]>;

export const words = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');
const linesOf = (text: string): string[] => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');

// "python3 'my script.py' --rank {rank}" -> its words. Quotes and backslashes as in a shell, and nothing else of it:
// no variables, no wildcards. Null while a quote is open.
export function commandWords(text: string): string[] | null {
  const out: string[] = [];
  let word: string | null = null, quote = '';
  for (let i = 0; i < text.length; ++i) {
    const c = text[i]!;
    if (quote === '' && /\s/.test(c)) {
      if (word !== null) out.push(word);
      word = null;
    } else if (quote === '' && (c === "'" || c === '"')) {
      quote = c;
      word ??= '';
    } else if (c === quote) {
      quote = '';
    } else if (c === '\\' && quote !== "'" && i + 1 < text.length) {
      word = (word ?? '') + text[++i]!;
    } else {
      word = (word ?? '') + c;
    }
  }
  if (word !== null) out.push(word);
  return quote === '' ? out : null;
}

function commandRequest(form: Form): RunRequest {
  const request: RunRequest = {name: form.name.trim(), workers: words(form.workers), command: commandWords(form.command) ?? []};
  const texts: [string, string][] = [
    ['work_dir', form.work_dir], ['backend', form.backend], ['executor', form.executor], ['threads_per_worker', form.cpus],
    ['seed', form.seed], ['repeat', form.repeat],
  ];
  for (const [key, value] of texts) {
    if (value.trim() !== '') request[key] = value.trim();
  }
  const env = linesOf(form.environment);
  if (env.length > 0) request['env'] = env;
  if (form.no_wait) request['no_wait'] = true;
  return request;
}

// Whether there is enough of it to ask the server what it thinks.
export const isComplete = (form: Form): boolean => form.name.trim() !== '' && words(form.workers).length > 0 &&
  (form.kind === 'task' ? form.task !== '' : (commandWords(form.command) ?? []).length > 0);

// Only what was given: everything else is the server's to choose.
export function requestOf(form: Form): RunRequest {
  if (form.kind === 'command') return commandRequest(form);
  const request: RunRequest = {name: form.name.trim(), workers: words(form.workers), task: form.task};
  const texts: [string, string][] = [
    ['rules', form.rules], ['variant', form.variant], ['framework', form.framework], ['backend', form.backend], ['executor', form.executor],
    ['threads_per_worker', form.cpus], ['seed', form.seed], ['repeat', form.repeat], ['max_steps', form.max_steps],
    ['max_epochs', form.max_epochs], ['max_time', form.max_time],
  ];
  for (const [key, value] of texts) {
    if (value.trim() !== '') request[key] = value.trim();
  }
  for (const key of ['gpu', 'light', 'synthetic', 'no_wait'] as const) {
    if (form[key]) request[key] = true;
  }
  const set = linesOf(form.overrides);
  if (set.length > 0) request['set'] = set;
  return request;
}

const quoted = (word: string): string => /^[A-Za-z0-9_./:=,@%+{}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

// `mlbench run` with the same meaning.
export function commandOf(request: RunRequest): string {
  const out = ['mlbench', 'run', String(request['name'] || 'NAME'), ...(request['workers'] as string[])];
  for (const [key, value] of Object.entries(request)) {
    if (key === 'name' || key === 'workers' || key === 'command') continue;
    const flag = `--${key.replaceAll('_', '-')}`;
    if (value === true) out.push(flag);
    if (typeof value === 'string') out.push(flag, value);
    if (Array.isArray(value)) for (const one of value) out.push(flag, one);
  }
  if (Array.isArray(request['command'])) out.push('--', ...request['command']);
  return out.map(quoted).join(' ');
}
