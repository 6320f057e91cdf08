// Logs of a run: choose, search, follow. Text stays text.

import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {get, getText, segment, textOf, usePolled} from './api';
import {bytes} from './format';
import type {Log} from './types';
import {Empty, ErrorNote} from './ui';

const FIRST_BYTES = 256 * 1024;
const KEPT_CHARACTERS = 4 << 20;
const SHOWN_LINES = 5000;
const PERIOD_MS = 1000;

interface Read {
  key: string;
  text: string;
  from: number;  // first byte that is here; of all logs together about so many are not
  next: string;  // the query that goes on behind it
}

const keyOf = (log: Log): string => `${log.rank}.${log.segment}.${log.stream}`;

// Those that hold something; and where there are several, all of them as one, and those of each stream.
function withAll(given: Log[]): Log[] {
  const logs = given.filter((log) => log.bytes > 0);
  const all = (stream: Log['stream']): Log[] => {
    const parts = logs.filter((log) => stream === 'both' || log.stream === stream);
    if (parts.length < 2 || (stream !== 'both' && parts.length === logs.length)) return [];
    return [{rank: 'all', segment: 0, stream, bytes: parts.reduce((sum, log) => sum + log.bytes, 0)}];
  };
  return [...logs, ...all('both'), ...all('stdout'), ...all('stderr')];
}

function titleOf(log: Log, segments: number): string {
  if (log.rank === 'supervisor') return 'supervisor';
  if (log.rank === 'all') return log.stream === 'both' ? 'all ranks' : `all ranks, ${log.stream}`;
  return `rank ${log.rank}${segments > 1 ? `, segment ${log.segment}` : ''}, ${log.stream}`;
}

// Pieces of a line between and at the places where `wanted` occurs, in any case.
export function pieces(line: string, wanted: string): {text: string; hit: boolean}[] {
  const out: {text: string; hit: boolean}[] = [];
  const lower = line.toLowerCase(), low = wanted.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(low); low !== '' && at >= 0; at = lower.indexOf(low, from)) {
    if (at > from) out.push({text: line.slice(from, at), hit: false});
    out.push({text: line.slice(at, at + low.length), hit: true});
    from = at + low.length;
  }
  out.push({text: line.slice(from), hit: false});
  return out;
}

export function Logs({run, active}: {run: string; active: boolean}) {
  const list = usePolled(`logs ${run}`, async () => (await get<{logs: Log[]}>(`/runs/${segment(run)}/logs`)).logs, active ? 5000 : 0);
  const logs = withAll(list.data ?? []);
  const [chosen, setChosen] = useState('');
  const [read, setRead] = useState<Read | null>(null);
  const [error, setError] = useState('');
  const [wanted, setWanted] = useState('');
  const [only, setOnly] = useState(true);
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const last = Math.max(0, ...logs.map((log) => log.segment));
  const log = logs.find((one) => keyOf(one) === chosen) ?? logs.find((one) => one.rank === 0 && one.segment === last) ?? logs[0];
  const key = log ? keyOf(log) : '';

  const fetchPart = async (place: string) => {
    const stream = log!.stream === 'both' ? '' : `&stream=${log!.stream}`;
    const answer = await getText(`/runs/${segment(run)}/logs/${log!.rank}?${place}&limit=${FIRST_BYTES * 4}${stream}`);
    const text = await answer.text();
    const next = log!.rank === 'all' ? `cursor=${encodeURIComponent(answer.headers.get('X-Next-Cursor') ?? '')}`
      : `segment=${log!.segment}&offset=${answer.headers.get('X-Next-Offset')}`;
    return {text, next};
  };

  useEffect(() => {
    if (!log) return undefined;
    let over = false, timer = 0;
    let state: Read | null = null;
    const tick = async () => {
      try {
        if (state === null) {
          const from = Math.max(0, log.bytes - FIRST_BYTES);
          const all = log.rank === 'all';
          const part = await fetchPart(all ? `last_bytes=${FIRST_BYTES}` : `segment=${log.segment}&offset=${from}`);
          // Not from the middle of a line.
          const cut = from === 0 || all ? 0 : part.text.indexOf('\n') + 1;
          state = {key, text: part.text.slice(cut), from: from + new TextEncoder().encode(part.text.slice(0, cut)).length, next: part.next};
        } else if (follow) {
          const part = await fetchPart(state.next);
          if (part.text !== '') {
            const text = state.text + part.text;
            state = {...state, text: text.slice(-KEPT_CHARACTERS), next: part.next};
          }
        }
        if (!over) {
          setRead(state);
          setError('');
        }
      } catch (problem) {
        if (!over) setError(textOf(problem));
      }
      if (!over && active && follow && !document.hidden) timer = setTimeout(() => void tick(), PERIOD_MS);
    };
    const seen = () => { if (!document.hidden && active && follow) void tick(); };
    document.addEventListener('visibilitychange', seen);
    void tick();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [run, key, active, follow]);

  const text = read?.key === key ? read.text : '';
  const lines = useMemo(() => text.replace(/\n$/, '').split('\n'), [text]);
  const all = useMemo(() => lines.map((line, i) => ({line, i})), [lines]);
  const found = useMemo(() => all.filter(({line}) => line.toLowerCase().includes(wanted.toLowerCase())), [all, wanted]);
  const hits = only ? found : all;
  const shown = hits.slice(-SHOWN_LINES);

  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follow, wanted, only]);

  if (list.data !== null && logs.length === 0) return <Empty title="No log yet."><p class="soft">Logs begin when the ranks write something.</p></Empty>;
  return (
    <div class="logs">
      <div class="toolbar">
        <select aria-label="Log" value={key} onChange={(event) => setChosen(event.currentTarget.value)}>
          {logs.map((one) => (
            <option key={keyOf(one)} value={keyOf(one)}>
              {titleOf(one, last)} ({bytes(one.bytes)})
            </option>
          ))}
        </select>
        <input type="search" aria-label="Search the log" placeholder="Search the log" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        <label class="check"><input type="checkbox" checked={only} onChange={(event) => setOnly(event.currentTarget.checked)} /> only lines that match</label>
        {active && <label class="check"><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> follow</label>}
        {wanted !== '' && <span class="soft" role="status">{found.length} of {lines.length} lines</span>}
      </div>
      <ErrorNote text={list.error || error} />
      {read !== null && read.from > 0 && <p class="soft small-text">{log?.rank === 'all' ? 'The last lines' : `From byte ${read.from.toLocaleString('en')} on`}; the download holds all of it.</p>}
      {hits.length > shown.length && <p class="soft small-text">The last {SHOWN_LINES.toLocaleString('en')} of {hits.length.toLocaleString('en')} lines.</p>}
      <pre class="log" ref={box} tabIndex={0} aria-label="Log text">
        {text === '' ? <span class="soft">{read?.key === key ? 'This log is empty.' : ''}</span>
          : wanted === '' ? shown.map(({line}) => line).join('\n')
          : shown.length === 0 ? <span class="soft">No line holds this.</span>
          : shown.map(({line, i}) => <span key={i} class="log-line"><span class="log-number">{i + 1}</span>{pieces(line, wanted).map((piece, k) => piece.hit ? <mark key={k}>{piece.text}</mark> : piece.text)}{'\n'}</span>)}
      </pre>
    </div>
  );
}
