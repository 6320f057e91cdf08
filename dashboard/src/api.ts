// Talks to the master that served this page, and to nobody else. Paths are below /api/v1, or whole.

import {useEffect, useRef, useState} from 'preact/hooks';
import {EventReader} from './events';

const BASE = '/api/v1';
let onLoggedOut: () => void = () => {};

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

// The secret of the login. Pages of this address and port alone can read it, in all tabs; a cookie would go to all ports.
const KEY = 'mlbench-login';
let unstored = '';  // where the browser stores nothing

function secret(): string {
  try {
    return localStorage.getItem(KEY) ?? unstored;
  } catch {
    return unstored;
  }
}

function keep(given: string): void {
  unstored = '';
  try {
    if (given === '') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, given);
  } catch {
    unstored = given;
  }
}

async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  const shown = secret();
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (shown !== '') headers['Authorization'] = `Bearer ${shown}`;
  let answer: Response;
  try {
    answer = await fetch((path.startsWith('/api/') ? '' : BASE) + path, {
      method, headers, body: body === undefined ? null : JSON.stringify(body), credentials: 'omit', cache: 'no-store', signal: signal ?? null,
    });
  } catch {
    throw new ApiError(0, 'The master does not answer.');
  }
  if (answer.ok) return answer;
  let message = `${answer.status} ${answer.statusText}`;
  try {
    const json = await answer.json() as {message?: string};
    if (json.message) message = json.message;
  } catch {
    // no JSON: the status says it
  }
  if (answer.status === 401 && shown !== '' && path !== '/session') {
    if (shown === secret()) keep('');  // else another tab has logged in since
    onLoggedOut();
  }
  throw new ApiError(answer.status, message);
}

export const get = async <T>(path: string): Promise<T> => (await request('GET', path)).json() as Promise<T>;
export const post = async <T>(path: string, body: unknown = {}): Promise<T> =>
  (await request('POST', path, body)).json() as Promise<T>;
export const put = async <T>(path: string, body: unknown): Promise<T> =>
  (await request('PUT', path, body)).json() as Promise<T>;
export const remove = async (path: string): Promise<void> => { await request('DELETE', path); };
export const getText = (path: string): Promise<Response> => request('GET', path);
export const segment = encodeURIComponent;
export const textOf = (error: unknown): string => error instanceof Error ? error.message : String(error);

// ---- login ----------------------------------------------------------------------------------------------------------

export function whenLoggedOut(action: () => void): void { onLoggedOut = action; }

// True when an earlier login still counts.
export async function resume(): Promise<boolean> {
  try {
    await get('/version');
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false;
    throw error;
  }
}

export async function logIn(given: {token: string} | {code: string}): Promise<void> {
  keep((await post<{session: string}>('/session', given)).session);
}

export async function logOut(): Promise<void> {
  try {
    await remove('/session');
  } finally {
    keep('');
    onLoggedOut();
  }
}

// ---- what buttons do -------------------------------------------------------------------------------------------------

// `busy` names what is being done, '' for nothing; `error` says why the last one failed.
export function useActions(before = '') {
  const [busy, setBusy] = useState('');
  const [error, setError] = useState(before);
  const act = async (what: string, action: () => Promise<void>) => {
    setBusy(what);
    setError('');
    await action().catch((problem: unknown) => setError(textOf(problem)));
    setBusy('');
  };
  return {busy, error, act};
}

// ---- live -----------------------------------------------------------------------------------------------------------

export interface Polled<T> {
  data: T | null;
  error: string;
  again: () => void;
}

// Asks now, every `period_ms` (0: once) while the page is seen, and when `again` is called. `key` names what is asked.
export function usePolled<T>(key: string, ask: () => Promise<T>, period_ms: number): Polled<T> {
  const [state, setState] = useState<{key: string; data: T | null; error: string}>({key, data: null, error: ''});
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    let over = false;
    let timer = 0;
    let asking = false;
    const tick = async () => {
      if (asking) return;
      asking = true;
      clearTimeout(timer);
      try {
        const data = await latest.current();
        if (!over) setState({key, data, error: ''});
      } catch (error) {
        if (!over) setState((old) => ({key, data: old.key === key ? old.data : null, error: textOf(error)}));
      }
      asking = false;
      if (!over && period_ms > 0 && !document.hidden) timer = setTimeout(tick, period_ms);
    };
    const seen = () => { if (!document.hidden && period_ms > 0) void tick(); };
    document.addEventListener('visibilitychange', seen);
    void tick();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key, period_ms, round]);
  return {
    data: state.key === key ? state.data : null,
    error: state.key === key ? state.error : '',
    again: () => setRound((old) => old + 1),
  };
}

// Server-sent events while the page is seen: a browser opens few connections to one server, all tabs together.
export function useEvents(path: string | null, handlers: Record<string, (data: unknown) => void>): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  const names = Object.keys(handlers).join(' ');
  useEffect(() => {
    if (path === null) return undefined;
    let reading: AbortController | null = null;
    let timer = 0;
    const close = () => {
      clearTimeout(timer);
      reading?.abort();
      reading = null;
    };
    // By hand: an EventSource cannot show the secret.
    const read = async (mine: AbortController): Promise<boolean> => {
      const answer = await request('GET', path, undefined, mine.signal);
      const parts = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
      const events = new EventReader();
      for (let part = await parts.read(); !part.done; part = await parts.read()) {
        for (const {name, data} of events.push(part.value)) {
          if (mine.signal.aborted) return false;
          latest.current[name]?.(JSON.parse(data));
          if (name === 'end') return false;
        }
      }
      return true;
    };
    const follow = async () => {
      if (document.hidden) return close();
      if (reading !== null) return;
      clearTimeout(timer);
      const mine = reading = new AbortController();
      let again = true;
      try {
        again = await read(mine);
      } catch (error) {
        again = !(error instanceof ApiError && error.status === 401);
      }
      if (reading !== mine) return;
      close();
      if (again) timer = setTimeout(follow, 3000);
    };
    document.addEventListener('visibilitychange', follow);
    void follow();
    return () => {
      document.removeEventListener('visibilitychange', follow);
      close();
    };
  }, [path, names]);
}

// ---- downloads ------------------------------------------------------------------------------------------------------

export function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A link could not show the secret.
export async function download(run: string): Promise<void> {
  save(await (await request('GET', `/runs/${segment(run)}/download`)).blob(), `${run}.zip`);
}

export async function downloadTimeline(run: string): Promise<void> {
  save(await (await request('GET', `/runs/${segment(run)}/timeline`)).blob(), `${run}.timeline.json`);
}
