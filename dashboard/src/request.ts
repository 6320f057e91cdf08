// What the dialog for new runs collects, as the request that it is and as the command that says the same. Pure.

import {seconds} from './format';

// What is asked for: a task that trains, one that measures communication alone (0a), any command.
export type Kind = 'task' | 'measure' | 'command';

// The keys but `kind` and `rest` are the fields of the request.
export interface Form {
  kind: Kind;
  name: string;
  workers: string;      // "1 2 4"
  task: string;
  rules: string;
  variant: string;
  goal: string;         // METRIC>=VALUE
  data: string;
  data_dir: string;
  framework: string;
  backend: string;
  executor: string;
  threads_per_worker: string;
  seed: string;
  repeat: string;
  max_steps: string;
  max_epochs: string;
  max_time: string;
  checkpoint_every: string;  // steps, or "epoch"
  requeue: string;
  comm_timeout: string;
  image: string;
  hosts: string;
  ranks_per_host: string;
  ssh_config: string;
  slurm: string;        // one KEY or KEY=VALUE per line
  setup: string;        // lines of shell
  scratch: string;
  kube_context: string;
  namespace: string;
  memory: string;
  data_volume: string;
  queue: string;
  host_network: boolean;
  pod_overlay: string;  // JSON or YAML
  work_dir: string;
  convolution: string;
  algorithm: string;
  links: string;
  socket_buffer: string;
  interface: string;
  wire_dtype: string;
  netem: string;
  check_collectives: boolean;
  timeline: boolean;
  gpu: boolean;
  overlap: boolean;
  light: boolean;
  to_the_end: boolean;
  synthetic: boolean;
  no_wait: boolean;
  share_host: boolean;
  set: string;          // one KEY=VALUE per line
  env: string;          // one NAME=VALUE per line
  command: string;      // words as a shell would take them; no shell runs
  rest: Record<string, string | boolean>;  // of restOf(), by name
}

export const EMPTY: Form = {
  kind: 'task', name: '', workers: '1', task: '', rules: '', variant: '', goal: '', data: '', data_dir: '', framework: '', convolution: '', backend: '', executor: '',
  threads_per_worker: '', seed: '', repeat: '', max_steps: '', max_epochs: '', max_time: '', checkpoint_every: '', requeue: '', comm_timeout: '', image: '', hosts: '', ranks_per_host: '', ssh_config: '',
  slurm: '', setup: '', scratch: '', kube_context: '', namespace: '', memory: '', data_volume: '', queue: '', host_network: false, pod_overlay: '', work_dir: '',
  algorithm: '', links: '', socket_buffer: '', interface: '', wire_dtype: '', netem: '', check_collectives: false, timeline: false,
  gpu: false, overlap: false, light: false, to_the_end: false, synthetic: false, no_wait: false, share_host: false, set: '', env: '', command: '', rest: {},
};

// A field of RunRequest in the master's description of itself.
export interface Field {
  type: string | string[];
  items?: Field;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  default?: string | number | boolean;
  description?: string;
  'x-unit'?: string;
  'x-applies-to'?: 'tasks' | 'training' | 'commands';
}
export type Fields = Record<string, Field>;

export type RunRequest = Record<string, string | boolean | string[]>;

// Whether the master knows the field, and it goes with this kind of run.
export function applies(fields: Fields, name: string, kind: Kind): boolean {
  const field = fields[name];
  if (field === undefined) return false;
  const to = field['x-applies-to'];
  return to === undefined || {tasks: kind !== 'command', training: kind === 'task', commands: kind === 'command'}[to];
}

// An executor in the master's catalog: which of its engine's options it takes, and whether runs that name none have it.
export interface Engine {
  name: string;
  options?: string[];   // not of masters before these were told
  usual?: boolean;
  gpus?: number | null; // that its hosts have for ranks; null: the master does not know
}

// The one that runs, where `chosen` is '' for the usual one.
export const engineOf = <T extends Engine>(engines: T[], chosen: string): T | undefined =>
  engines.find((one) => (chosen === '' ? one.usual === true : one.name === chosen));

// Whether the engine takes a field. What is no option of any engine goes with all of them.
export function takes(engines: Engine[], chosen: string, name: string): boolean {
  if (!engines.some((one) => one.options?.includes(name))) return true;
  return engineOf(engines, chosen)?.options?.includes(name) ?? false;
}

// Fields that only programs send: the content of a file, and names that follow by themselves.
const OF_PROGRAMS = new Set(['task_text', 'next_repeat']);

// The fields that the dialog has no place of their own for, and draws as the description has them.
export const restOf = (fields: Fields, kind: Kind, engines: Engine[], chosen: string): [string, Field][] =>
  Object.entries(fields).filter(([name, field]) => !(name in EMPTY) && !OF_PROGRAMS.has(name) && field.type !== 'object' &&
    applies(fields, name, kind) && takes(engines, chosen, name));

// Whether ranks of the engine may have GPUs: what the master does not know, the engine or a rank says.
export const offersGpus = (engines: Engine[], chosen: string): boolean => engineOf(engines, chosen)?.gpus !== 0;

// "1 to 1,024", "1 ms to 8760 h 00 min"; nothing where there is no range that says something.
export function rangeText(field: Field | undefined): string {
  const of = field?.items ?? field;
  if (of?.minimum === undefined || of.maximum === undefined || of.maximum > Number.MAX_SAFE_INTEGER) return '';
  const text = of['x-unit'] === 's' ? seconds : (value: number) => value.toLocaleString('en', {maximumFractionDigits: 9});
  return `${text(of.minimum)} to ${text(of.maximum)}`;
}

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

// Whether there is enough of it to ask the server what it thinks.
export const isComplete = (form: Form): boolean => form.name.trim() !== '' && words(form.workers).length > 0 &&
  (form.kind === 'command' ? (commandWords(form.command) ?? []).length > 0 : form.task !== '');

// What the request holds as text, and the command line takes as a file: its name there.
const FILES: Record<string, string> = {setup: 'setup.sh', pod_overlay: 'pod.yaml'};

// Only what was given, and what goes with the kind of run and its engine: everything else is the server's to choose.
export function requestOf(form: Form, fields: Fields, engines: Engine[] = []): RunRequest {
  const request: RunRequest = {name: form.name.trim(), workers: words(form.workers)};
  const {rest, ...own} = form;
  for (const [name, value] of Object.entries({...own, ...rest})) {
    if (name === 'kind' || name in request || !applies(fields, name, form.kind) || !takes(engines, form.executor, name)) continue;
    if (name === 'gpu' && !offersGpus(engines, form.executor)) continue;
    if (typeof value === 'boolean') {
      if (value) request[name] = true;
    } else if (fields[name]!.type === 'array') {
      const list = name === 'command' ? commandWords(value) ?? [] : linesOf(value);
      if (list.length > 0) request[name] = list;
    } else if (value.trim() !== '') {
      request[name] = name in FILES ? `${value.trimEnd()}\n` : value.trim();
    }
  }
  return request;
}

const quoted = (word: string): string => /^[A-Za-z0-9_./:=,@%+{}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

// The name of the command line's option, where it is not the field's.
const FLAGS: Record<string, string> = {slurm: '--slurm-option'};
// Their value may be left out, so it does not stand in a word of its own.
const OPTIONAL_VALUE = new Set(['requeue']);

// `mlbench run` with the same meaning; what is a file there, is named.
export function commandOf(request: RunRequest): string {
  const out = ['mlbench', 'run', String(request['name'] || 'NAME'), ...(request['workers'] as string[])];
  for (const [key, value] of Object.entries(request)) {
    if (key === 'name' || key === 'workers' || key === 'command') continue;
    const flag = FLAGS[key] ?? `--${key.replaceAll('_', '-')}`;
    if (key in FILES) {
      out.push(flag, `${String(request['name'])}-${FILES[key]!}`);
      continue;
    }
    if (value === true) out.push(flag, ...(key === 'timeline' ? [`${String(request['name'])}-timeline.json`] : []));
    if (typeof value === 'string') out.push(...(OPTIONAL_VALUE.has(key) ? [`${flag}=${value}`] : [flag, value]));
    if (Array.isArray(value)) for (const one of value) out.push(flag, one);
  }
  if (Array.isArray(request['command'])) out.push('--', ...request['command']);
  return out.map(quoted).join(' ');
}
