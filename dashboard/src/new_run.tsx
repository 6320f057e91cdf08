// The dialog for new runs. What can be chosen is what the master says: its tasks, the catalog of its worker, and the
// fields of RunRequest in its description: which there are, what each goes with, its range and unit. While it is filled in, the master plans what would run.

import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {get, post, textOf, useActions, usePolled} from './api';
import {NONE, number, plural, taskLabel} from './format';
import {applies, commandOf, EMPTY, engineOf, isComplete, offersGpus, rangeText, requestOf, restOf, takes, type Field, type Fields, type Form, type Kind} from './request';
import {go, runHref} from './router';
import type {Catalog, Choice, Plan, RunSummary, Task} from './types';
import {Dialog, ErrorNote, Loading, Segmented} from './ui';

interface Offer {
  tasks: Task[];
  catalog: Catalog | null;
  problem: string;       // why there is no catalog
  fields: Fields;        // of RunRequest
}

async function loadOffer(): Promise<Offer> {
  interface Description { components: {schemas: {RunRequest: {properties: Fields}}} }
  let problem = '';
  const [{tasks}, catalog, description] = await Promise.all([
    get<{tasks: Task[]}>('/tasks'),
    get<Catalog>('/catalog').catch((error: unknown) => {
      problem = textOf(error);
      return null;
    }),
    get<Description>('/openapi.json'),
  ]);
  return {tasks, catalog, problem, fields: description.components.schemas.RunRequest.properties};
}

// What is not available is shown with its reason, and cannot be chosen.
function Choices({label, value, choices, usual, onChoose}: {label: string; value: string; choices: Choice[]; usual: string; onChoose: (name: string) => void}) {
  const missing = choices.filter((one) => !one.available && one.reason);
  return (
    <div>
      <label>{label}
        <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
          <option value="">{usual}</option>
          {choices.map((one) => <option key={one.name} value={one.name} disabled={!one.available}>{one.name}{one.available ? '' : ' (not available)'}</option>)}
        </select>
      </label>
      {missing.length > 0 && (
        <details class="hint">
          <summary>Why not {missing.map((one) => one.name).join(', ')}</summary>
          {missing.map((one) => <p key={one.name}>{one.name}: {one.reason}</p>)}
        </details>
      )}
    </div>
  );
}

// A number as text: the master says what is wrong with it. Without a field there is nothing to ask for.
function NumberInput({label, field, usual, value, onInput}: {label: string; field: Field | undefined; usual?: string; value: string; onInput: (event: {currentTarget: HTMLInputElement}) => void}) {
  if (field === undefined) return null;
  const range = rangeText(field);
  const placeholder = usual ?? (field.default === undefined ? '' : String(field.default));
  return (
    <label>{label}
      <input inputMode="decimal" autocomplete="off" placeholder={placeholder} value={value} onInput={onInput} />
      {range !== '' && <span class="hint">{range}</span>}
    </label>
  );
}

interface TextProps {
  placeholder?: string;
  hint?: string;
  lines?: boolean;
}

// One of what the master's description names.
function OneOf({label, field, among, usual, value, onChoose}: {label: string; field: Field | undefined; among?: string[] | undefined; usual: string; value: string; onChoose: (name: string) => void}) {
  if (field?.enum === undefined) return null;
  const names = field.enum.filter((name) => name !== field.default && (among === undefined || among.includes(name)));
  return (
    <label>{label}
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        <option value="">{usual}</option>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

// What the master takes beside, in its own words.
function Rest({fields, given, onGive}: {fields: [string, Field][]; given: Form['rest']; onGive: (part: Form['rest']) => void}) {
  if (fields.length === 0) return null;
  const title = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');
  const flags = fields.filter(([, field]) => field.type === 'boolean');
  return (
    <details>
      <summary>Further options</summary>
      <div class="fields">
        {fields.filter((one) => !flags.includes(one)).map(([name, field]) => (
          <label key={name}>{title(name)}
            <input spellcheck={false} autocomplete="off" placeholder={field.default === undefined ? '' : String(field.default)} value={String(given[name] ?? '')} onInput={(event) => onGive({[name]: event.currentTarget.value})} />
            <span class="hint">{[field.description, rangeText(field)].filter(Boolean).join('; ')}</span>
          </label>
        ))}
        <div class="checks">{flags.map(([name, field]) => (
          <label key={name} class="check"><input type="checkbox" checked={given[name] === true} onChange={(event) => onGive({[name]: event.currentTarget.checked})} /> {title(name)}: {field.description}</label>
        ))}</div>
      </div>
    </details>
  );
}

function Preview({plan, error, waiting}: {plan: Plan | null; error: string; waiting: boolean}) {
  if (error !== '') return <div class="note error" role="alert"><p>{error}</p></div>;
  if (plan === null) return <p class="soft">{waiting ? 'Asking the master …' : 'Enter a name and worker counts to see the runs.'}</p>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Planned runs">
        <table class="figures plan">
          <thead><tr><th>Run</th><th class="num">Workers</th><th class="num">CPUs each</th><th>Task</th><th>Division</th><th>Framework, backend</th><th>Data</th><th class="num">Seed</th></tr></thead>
          <tbody>{plan.runs.map((run) => (
            <tr key={run.name}>
              <th>{run.name}{run.taken && <span class="badge failed">name taken</span>}</th><td class="num">{run.workers}</td><td class="num">{run.cpus ?? run.threads_per_worker}</td>
              <td>{taskLabel(run)}{run.light && ', light goal'}{run.overrides.map((one) => <div key={one.key}><code>{one.key}={one.value}</code></div>)}</td>
              <td>{run.division}</td><td>{run.framework === 'none' ? '' : `${run.framework}, `}{run.backend}{run.device === 'cpu' ? '' : `, ${run.device}`}</td><td>{run.data === 'none' ? NONE : run.data}</td><td class="num">{run.seed}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
      {plan.warnings.map((warning) => <p key={warning} class="note">{warning}</p>)}
    </>
  );
}

export function NewRun({onClose}: {onClose: () => void}) {
  const offered = usePolled('offer', loadOffer, 0);
  const offer = offered.data;
  const [form, setForm] = useState<Form>(EMPTY);
  const [plan, setPlan] = useState<{key: string; plan: Plan | null; error: string}>({key: '', plan: null, error: ''});
  const {busy, error, act} = useActions();
  const change = (part: Partial<Form>) => setForm((old) => ({...old, ...part}));
  const typed = (key: keyof Form) => (event: {currentTarget: HTMLInputElement | HTMLTextAreaElement}) => change({[key]: event.currentTarget.value});

  useEffect(() => {
    if (offer && form.task === '' && offer.tasks.length > 0) change({task: (offer.tasks.find((task) => task.name === 'fashion-mnist') ?? offer.tasks[0]!).name});
  }, [offer]);

  // The form comes when the dialog is open already.
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => { first.current?.focus(); }, [offer !== null]);

  const forms = offer?.tasks.filter((task) => task.name === form.task) ?? [];
  const task = forms.find((one) => (one.rules ?? '') === form.rules) ?? forms.at(-1);
  const kind: Kind = form.kind === 'task' && task?.goal === null ? 'measure' : form.kind;
  const request = useMemo(() => requestOf({...form, kind}, offer?.fields ?? {}, offer?.catalog?.executors ?? []), [form, kind, offer]);
  const key = JSON.stringify(request);
  const complete = isComplete(form);
  useEffect(() => {
    if (!complete) return undefined;
    let over = false;
    const timer = setTimeout(async () => {
      try {
        const answer = await post<Plan>('/plan', request);
        if (!over) setPlan({key, plan: answer, error: ''});
      } catch (problem) {
        if (!over) setPlan({key, plan: null, error: textOf(problem)});
      }
    }, 300);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, complete]);

  const current = complete && plan.key === key ? plan : null;
  // The master says what it takes where nothing is chosen.
  const planned = current?.plan?.runs[0];
  const usualOf = (name: string | undefined): string => name === undefined || name === '' || name === 'none' ? 'default' : `default (${name})`;
  const taken = current?.plan?.runs.some((run) => run.taken) ?? false;
  const start = (event: Event) => {
    event.preventDefault();
    return act('start', async () => {
      const {runs} = await post<{runs: RunSummary[]}>('/runs', request);
      onClose();
      go(runs.length === 1 ? runHref(runs[0]!.name) : '#/runs');
    });
  };

  const ruleSets = forms.map((one) => one.rules ?? '').filter((rules) => rules !== '');
  const custom = form.kind === 'command';
  const engines = offer?.catalog?.executors ?? [];
  const engine = engineOf(engines, form.executor);
  const has = (field: string) => applies(offer?.fields ?? {}, field, kind) && takes(engines, form.executor, field);
  const fieldOf = (name: string): Field | undefined => (has(name) ? offer?.fields[name] : undefined);
  // What is asked for as text, where it goes with the run and its engine.
  const textField = (of: keyof Form, label: string, {placeholder, hint, lines = false}: TextProps = {}) => (has(of) ? (
    <label class={lines ? 'full' : undefined}>{label}
      {lines
        ? <textarea class="mono" rows={2} spellcheck={false} placeholder={placeholder} value={String(form[of])} onInput={typed(of)} />
        : <input spellcheck={false} autocomplete="off" placeholder={placeholder} value={String(form[of])} onInput={typed(of)} />}
      {hint !== undefined && <span class="hint">{hint}</span>}
    </label>
  ) : null);
  const catalog = offer?.catalog;
  const count = current?.plan?.runs.length ?? 0;

  return (
    <Dialog title="New run" onClose={onClose} wide>
      {offer === null && offered.error === '' && <Loading what="what can be chosen" />}
      <ErrorNote text={offered.error} again={offered.again} />
      {offer !== null && (
        <form class="new-run" onSubmit={(event) => void start(event)}>
          <div class="new-run-body">
          {offer.problem !== '' && <ErrorNote text={`Nothing can run here now: ${offer.problem}`} />}
          <fieldset>
            <legend class="hidden">What to run</legend>
            {offer.fields['command'] !== undefined && (
              <Segmented<'task' | 'command'> label="Kind of run" value={custom ? 'command' : 'task'} onChoose={(chosen) => change({kind: chosen, backend: ''})}
                choices={[['task', 'A task'], ['command', 'Your own command']]} />
            )}
            <div class="fields">
              <label>Name
                <input required ref={first} pattern="[A-Za-z0-9][A-Za-z0-9._\-]*" maxLength={60} spellcheck={false} autocomplete="off" value={form.name} onInput={typed('name')} />
                <span class="hint">Runs are called NAME-WORKERS.</span>
              </label>
              {has('command') && (
                <label class="full">Command, started once per rank
                  <input required class="mono" spellcheck={false} autocomplete="off" placeholder="python3 train.py --rank {rank} --hosts {hosts}" value={form.command} onInput={typed('command')} />
                  <span class="hint">{'{rank}, {run_id}, {hosts} and {backend} are filled in. Quotes hold words together; no shell runs.'}</span>
                </label>
              )}
              {custom && textField('image', 'Custom image', {placeholder: engine?.name === 'kubernetes' ? 'default (image of the workers)' : 'none: programs of the host'})}
              {has('work_dir') && <label>Working folder<input spellcheck={false} placeholder={form.image === '' ? 'default (home of the master)' : 'default (of the image)'} value={form.work_dir} onInput={typed('work_dir')} /></label>}
              {has('env') && <label>Environment variables<textarea class="mono" rows={1} spellcheck={false} placeholder="NAME=VALUE, one per line" value={form.env} onInput={typed('env')} /></label>}
              {has('task') && <label>Task
                <select value={form.task} onChange={(event) => change({task: event.currentTarget.value, rules: '', variant: ''})}>
                  {[...new Map(offer.tasks.map((one) => [one.name, one])).values()].map((one) => <option key={one.name} value={one.name}>{one.name}: {one.title}</option>)}
                </select>
              </label>}
              {has('rules') && ruleSets.length > 1 && (
                <label>Rules
                  <select value={form.rules} onChange={(event) => change({rules: event.currentTarget.value, variant: ''})}>
                    <option value="">default (newest)</option>
                    {ruleSets.map((rules) => <option key={rules} value={rules}>{rules}</option>)}
                  </select>
                </label>
              )}
              {has('variant') && task !== undefined && task.variants.length > 0 && (
                <label>Variant
                  <select value={form.variant} onChange={(event) => change({variant: event.currentTarget.value})}>
                    <option value="">default ({task.variants[0]})</option>
                    {task.variants.slice(1).map((variant) => <option key={variant} value={variant}>{variant}</option>)}
                  </select>
                </label>
              )}
              {has('light') && task?.goal && (
                <fieldset class="inline">
                  <legend>Goal</legend>
                  <label class="check"><input type="radio" name="goal" checked={!form.light} onChange={() => change({light: false})} /> full: {task.goal.metric} {number(task.goal.target, 4)}</label>
                  {task.goal.light_target !== null && task.goal.light_target !== 0 && <label class="check"><input type="radio" name="goal" checked={form.light} onChange={() => change({light: true})} /> light: {number(task.goal.light_target, 4)}</label>}
                </fieldset>
              )}
            </div>
          </fieldset>
          <fieldset>
            <legend>Where and how</legend>
            <div class="fields">
              <label>Workers
                <input required inputMode="numeric" pattern="[0-9]+([ ,]+[0-9]+)*" autocomplete="off" value={form.workers} onInput={typed('workers')} />
                <span class="hint">One run per number{!custom && task !== undefined && task.workers.length > 0 && `; official: ${task.workers.join(', ')}`}.</span>
              </label>
              <NumberInput label="CPUs per worker" field={fieldOf('threads_per_worker')} usual="default (cores / workers)" value={form.threads_per_worker} onInput={typed('threads_per_worker')} />
              {catalog && has('framework') && <Choices label="Framework" usual={usualOf(planned?.framework)} value={form.framework} choices={catalog.frameworks} onChoose={(framework) => change({framework})} />}
              <OneOf label="Convolutions" field={fieldOf('convolution')} among={catalog?.frameworks.find((one) => one.name === (form.framework || planned?.framework))?.convolutions} usual="auto (of the framework)" value={form.convolution} onChoose={(convolution) => change({convolution})} />
              {custom && (
                <label>Communication backend
                  <input list="backends" spellcheck={false} autocomplete="off" placeholder="gloo" value={form.backend} onInput={typed('backend')} />
                  <datalist id="backends">{(catalog?.backends ?? []).map((one) => <option key={one.name} value={one.name} />)}</datalist>
                  <span class="hint">Any name. With mpi, mpirun starts the ranks; with any other, the command starts on each rank.</span>
                </label>
              )}
              {catalog && !custom && <Choices label="Communication backend" usual={usualOf(planned?.backend)} value={form.backend} choices={catalog.backends} onChoose={(backend) => change({backend})} />}
              {catalog && catalog.executors.length > 1 && <Choices label="Executor" usual={usualOf(engineOf(engines, '')?.name)} value={form.executor} choices={catalog.executors} onChoose={(executor) => change({executor})} />}
              {textField('data_dir', 'Data folder', {placeholder: 'default (folder of the master)', hint: 'An absolute path for the master.'})}
              {has('gpu') && offersGpus(engines, form.executor) && <label class="check"><input type="checkbox" checked={form.gpu} onChange={(event) => change({gpu: event.currentTarget.checked})} /> on GPUs, one per worker
                {engine !== undefined && engine.gpus === null && <span class="hint">The master does not know whether the hosts of {engine.name} have GPUs.</span>}
              </label>}
            </div>
          </fieldset>
          <details>
            <summary>{kind === 'task' ? 'Limits, data, checkpoints, seed, overrides' : 'Seed, repeats'}</summary>
            <div class="fields">
              <NumberInput label="Stop after (epochs)" field={fieldOf('max_epochs')} value={form.max_epochs} onInput={typed('max_epochs')} />
              <NumberInput label="Stop after (steps)" field={fieldOf('max_steps')} value={form.max_steps} onInput={typed('max_steps')} />
              <NumberInput label="Stop after (time)" field={fieldOf('max_time')} usual="90s, 5m, 2h, official" value={form.max_time} onInput={typed('max_time')} />
              <NumberInput label="Checkpoint interval (steps)" field={fieldOf('checkpoint_every')} usual="default (one at the end); epoch" value={form.checkpoint_every} onInput={typed('checkpoint_every')} />
              <NumberInput label="Restarts after a lost host" field={fieldOf('requeue')} usual="default (none)" value={form.requeue} onInput={typed('requeue')} />
              <NumberInput label="Seed" field={fieldOf('seed')} value={form.seed} onInput={typed('seed')} />
              <NumberInput label="Repeats" field={fieldOf('repeat')} value={form.repeat} onInput={typed('repeat')} />
              {textField('goal', 'Another goal', {placeholder: 'METRIC>=VALUE or METRIC<=VALUE', hint: 'A run with a goal of its own is open.'})}
              {textField('data', 'Data set', {placeholder: task?.data ? `default (${task.data})` : 'default'})}
              <div class="checks">
                {has('to_the_end') && <label class="check"><input type="checkbox" checked={form.to_the_end} onChange={(event) => change({to_the_end: event.currentTarget.checked})} /> continue past the goal, to the last epoch or limit</label>}
                {has('synthetic') && <label class="check"><input type="checkbox" checked={form.synthetic} onChange={(event) => change({synthetic: event.currentTarget.checked})} /> synthetic data instead of the real set</label>}
                {has('no_wait') && <label class="check"><input type="checkbox" checked={form.no_wait} onChange={(event) => change({no_wait: event.currentTarget.checked})} /> start at once, without waiting for cores (labelled oversubscribed)</label>}
                {has('share_host') && <label class="check"><input type="checkbox" checked={form.share_host} onChange={(event) => change({share_host: event.currentTarget.checked})} /> share the host with other such runs, each on its own cores (its times stand in no table)</label>}
              </div>
              {has('set') && <label class="full">Overrides, one KEY=VALUE per line (the run becomes open)
                <textarea rows={2} spellcheck={false} placeholder="batch_size=64" value={form.set} onInput={typed('set')} />
              </label>}
            </div>
          </details>
          {engine?.options !== undefined && <details>
            <summary>Options of the executor {engine.name}</summary>
            <div class="fields">
              {!custom && textField('image', 'Image of the ranks', {placeholder: engine.name === 'kubernetes' ? 'default (image of the workers)' : 'none: programs of the host'})}
              {textField('hosts', 'Hosts', {placeholder: 'h1:2,h2:2', hint: 'Each host with its number of ranks.'})}
              <NumberInput label="Ranks per host" field={fieldOf('ranks_per_host')} usual="default (slots of the host)" value={form.ranks_per_host} onInput={typed('ranks_per_host')} />
              {textField('ssh_config', 'SSH configuration file', {placeholder: 'path on the machine of the master'})}
              {textField('scratch', 'Scratch folder on the hosts', {placeholder: 'default (/tmp)'})}
              {textField('slurm', 'sbatch options, one KEY or KEY=VALUE per line', {placeholder: 'partition=gpu', lines: true})}
              {textField('setup', 'Setup commands (shell) before the ranks start', {placeholder: 'module load openmpi', lines: true})}
              {textField('namespace', 'Namespace')}
              {textField('kube_context', 'Kubeconfig context')}
              {textField('memory', 'Memory per rank', {placeholder: '4Gi'})}
              {textField('data_volume', 'Volume with data sets', {placeholder: 'a claim, or a path on the nodes'})}
              {textField('queue', 'Kueue queue')}
              {textField('pod_overlay', 'Pod overlay (JSON or YAML)', {placeholder: 'spec: {nodeSelector: {pool: bench}}', lines: true})}
              {has('host_network') && <div class="checks"><label class="check"><input type="checkbox" checked={form.host_network} onChange={(event) => change({host_network: event.currentTarget.checked})} /> use the network of the nodes</label></div>}
            </div>
          </details>}
          {has('algorithm') && <details>
            <summary>Communication</summary>
            <div class="fields">
              <OneOf label="All-reduce algorithm" field={fieldOf('algorithm')} among={catalog?.backends.find((one) => one.name === form.backend)?.algorithms} usual="default (of the backend)" value={form.algorithm} onChoose={(algorithm) => change({algorithm})} />
              <NumberInput label="Connections per pair of ranks" field={fieldOf('links')} value={form.links} onInput={typed('links')} />
              {has('socket_buffer') && <label>Socket buffer size<input spellcheck={false} autocomplete="off" placeholder="64K, 4M" value={form.socket_buffer} onInput={typed('socket_buffer')} /></label>}
              {has('interface') && <label>Network interface<input spellcheck={false} autocomplete="off" placeholder="default (loopback)" value={form.interface} onInput={typed('interface')} /></label>}
              <NumberInput label="Timeout of an operation" field={fieldOf('comm_timeout')} usual="default (30s)" value={form.comm_timeout} onInput={typed('comm_timeout')} />
              <OneOf label="Data type on the wire" field={fieldOf('wire_dtype')} usual="default (of the gradient)" value={form.wire_dtype} onChoose={(wire_dtype) => change({wire_dtype})} />
              {has('netem') && <label>Emulated network<input class="mono" spellcheck={false} autocomplete="off" placeholder="latency=0.2ms,bandwidth=1Gbit" value={form.netem} onInput={typed('netem')} /></label>}
              <div class="checks">
                {has('overlap') && <label class="check"><input type="checkbox" checked={form.overlap} onChange={(event) => change({overlap: event.currentTarget.checked})} /> overlap communication with the backward pass</label>}
                {has('check_collectives') && <label class="check"><input type="checkbox" checked={form.check_collectives} onChange={(event) => change({check_collectives: event.currentTarget.checked})} /> check that all ranks call the same operation (slower)</label>}
                {has('timeline') && <label class="check"><input type="checkbox" checked={form.timeline} onChange={(event) => change({timeline: event.currentTarget.checked})} /> record a timeline of all ranks</label>}
              </div>
            </div>
            <p class="soft">With another data type on the wire or an emulated network, the run is open.</p>
          </details>}
          <Rest fields={restOf(offer.fields, kind, engines, form.executor)} given={form.rest} onGive={(part) => change({rest: {...form.rest, ...part}})} />
          <section class="preview" aria-live="polite">
            <h3>Planned runs</h3>
            <Preview plan={current?.plan ?? null} error={current?.error ?? ''} waiting={complete} />
            <code class="command">{commandOf(request)}</code>
          </section>
          </div>
          <ErrorNote text={error} />
          <div class="dialog-actions">
            <button type="button" onClick={onClose}>Cancel</button>
            <button type="submit" class="primary" disabled={busy !== '' || count === 0 || taken}>{busy ? 'Starting …' : count > 1 ? `Start ${plural(count, 'run')}` : 'Start the run'}</button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
