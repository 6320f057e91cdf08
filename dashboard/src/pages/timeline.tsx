// The timeline of a run: who waits for whom, what each rank's time goes into, and one step from close.

import {useState} from 'preact/hooks';
import {ApiError, downloadTimeline, get, segment, useActions, usePolled} from '../api';
import {bytes, NONE, percent, plural, seconds} from '../format';
import {runHref} from '../router';
import {KIND_TITLES} from '../run_series';
import {rowsOf, type Placed} from '../spans';
import {TableBox} from '../table';
import type {TimelineRank, TimelineSummary, Trace} from '../types';
import {Empty, ErrorNote, Loading} from '../ui';

// What the time of a rank is made of, and the number of its colour.
const PARTS: readonly (readonly [string, number, (rank: TimelineRank) => number])[] = [
  ['compute', 2, (rank) => rank.compute_s],
  ['input', 0, (rank) => rank.input_s],
  ['wait for others', 1, (rank) => rank.communication.wait_s],
  ['transfer', 5, (rank) => rank.communication.transfer_s],
  ['communication without a match', 8, (rank) => rank.communication.unmatched_s],
  ['exchange', 4, (rank) => rank.exchange_s],
  ['evaluation', 3, (rank) => rank.evaluation_s],
  ['checkpoint', 7, (rank) => rank.checkpoint_s],
  ['prepare', 8, (rank) => rank.prepare_s],
  ['unattributed', 6, (rank) => rank.unattributed_s],
];

const COLOURS: Record<string, number> = {phase: 2, layer: 5, communication: 4, evaluation: 3, checkpoint: 7, prepare: 8, step: 6};

function colourOf({name, cat}: Placed): number {
  if (name === 'batch_load') return 0;
  if (name.startsWith('NEGOTIATE_') || name === 'WAIT_FOR_DATA') return 1;
  return COLOURS[cat] ?? 6;
}

function Ranks({run, summary}: {run: string; summary: TimelineSummary}) {
  const present = PARTS.filter(([, , of]) => summary.ranks.some((rank) => of(rank) > 0));
  const longest = Math.max(...summary.ranks.map((rank) => rank.elapsed_s), 1e-9);
  return (
    <>
      <div class="panel time-bars">
        {summary.ranks.map((rank) => (
          <div class="time-bar" key={rank.rank}>
            <span>rank {rank.rank}</span>
            <div role="img" aria-label={present.map(([name, , of]) => `${name} ${seconds(of(rank))}`).join(', ')}>
              {present.map(([name, colour, of]) => (
                <span key={name} title={`${name}: ${seconds(of(rank))}`} style={{width: `${100 * of(rank) / longest}%`, background: `var(--series-${colour})`}} />
              ))}
            </div>
          </div>
        ))}
        <p class="small-text">{present.map(([name, colour]) => <span class="time-key" key={name}><span class="swatch" style={{background: `var(--series-${colour})`}} /> {name}</span>)}</p>
      </div>
      <TableBox title="The time of each rank" file={`${run}-rank-times`} shown="In numbers">
        <table class="figures">
          <thead><tr><th>Rank</th><th class="num">together</th>{present.map(([name]) => <th class="num" key={name}>{name}</th>)}<th class="num">hidden communication</th><th>waits for</th></tr></thead>
          <tbody>
            {summary.ranks.map((rank) => (
              <tr key={rank.rank}>
                <th>rank {rank.rank}</th><td class="num" data-value={rank.elapsed_s}>{seconds(rank.elapsed_s)}</td>
                {present.map(([name, , of]) => <td class="num" key={name} data-value={of(rank)}>{seconds(of(rank))}</td>)}
                <td class="num" data-value={rank.communication.hidden_s}>{seconds(rank.communication.hidden_s)}</td>
                <td>{rank.waits_for.map((one) => `rank ${one.rank}: ${seconds(one.s)}`).join(', ') || NONE}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </>
  );
}

function Operations({run, summary}: {run: string; summary: TimelineSummary}) {
  if (summary.operations.length === 0) return <p class="soft">There was no communication.</p>;
  return (
    <TableBox title="Operations with most wait" file={`${run}-operations`}>
      <table class="figures">
        <thead><tr><th>Operation</th><th class="num">size</th><th class="num">count</th><th class="num">wait</th><th class="num">transfer</th><th>verdict</th><th>longest wait</th></tr></thead>
        <tbody>
          {summary.operations.slice(0, 15).map((one) => (
            <tr key={`${one.name} ${one.bytes}`}>
              <th>{one.name}</th><td class="num" data-value={one.bytes}>{bytes(one.bytes)}</td><td class="num" data-value={one.count}>{one.count.toLocaleString('en')}</td>
              <td class="num" data-value={one.wait_s}>{seconds(one.wait_s)}</td><td class="num" data-value={one.transfer_s}>{seconds(one.transfer_s)}</td><td>{one.verdict}</td>
              <td>{one.worst === null ? NONE : `${seconds(one.worst.wait_s)}${one.worst.rank === null ? '' : ` for rank ${one.worst.rank}`}${one.worst.step === null ? '' : `, step ${one.worst.step}`}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

const WIDTH = 1000, LINE = 18;

// One step, all ranks below each other; what is shown of it can be narrowed.
function Strip({trace}: {trace: Trace}) {
  const rows = rowsOf(trace);
  const all = rows.flatMap((row) => row.spans);
  const begin = Math.min(...all.map((one) => one.ts)), end = Math.max(...all.map((one) => one.ts + one.dur));
  const [shown, setShown] = useState<[number, number]>([0, 1]);
  const [told, setTold] = useState('');
  if (all.length === 0) return <p class="soft">Nothing is on record of this step.</p>;
  const whole = Math.max(end - begin, 1e-3), from = begin + shown[0] * whole, span = (shown[1] - shown[0]) * whole;
  const zoom = (factor: number, move = 0) => setShown(([low, high]) => {
    const width = Math.min(1, (high - low) * factor), middle = (low + high) / 2 + move * (high - low);
    const left = Math.min(Math.max(0, middle - width / 2), 1 - width);
    return [left, left + width];
  });
  return (
    <div class="panel">
      <div class="toolbar" role="group" aria-label="Part of the step">
        <button type="button" onClick={() => zoom(0.5)}>Zoom in</button>
        <button type="button" disabled={shown[1] - shown[0] >= 1} onClick={() => zoom(2)}>Zoom out</button>
        <button type="button" disabled={shown[0] <= 0} onClick={() => zoom(1, -0.5)}>Earlier</button>
        <button type="button" disabled={shown[1] >= 1} onClick={() => zoom(1, 0.5)}>Later</button>
        <span class="soft">{seconds(span / 1e6)} of {seconds(whole / 1e6)}</span>
      </div>
      {rows.map((row) => (
        <div class="strip-row" key={`${row.rank} ${row.name}`}>
          <span>rank {row.rank}, {row.name}</span>
          <svg viewBox={`0 0 ${WIDTH} ${LINE * row.depth}`} height={LINE * row.depth} preserveAspectRatio="none" role="img" aria-label={`rank ${row.rank}, ${row.name}: ${plural(row.spans.length, 'span')}`}>
            {row.spans.filter((one) => one.ts < from + span && one.ts + one.dur > from).slice(0, 2000).map((one, index) => {
              const left = Math.max(0, (one.ts - from) / span * WIDTH), right = Math.min(WIDTH, (one.ts + one.dur - from) / span * WIDTH);
              const text = `rank ${row.rank}: ${one.name}, ${seconds(one.dur / 1e6)}${one.args?.waited_for === undefined ? '' : `, waited ${seconds((one.args.wait_us ?? 0) / 1e6)} for rank ${one.args.waited_for}`}`;
              return (
                <rect key={index} x={left} y={one.level * LINE} width={Math.max(0.7, right - left)} height={LINE - 2} fill={`var(--series-${colourOf(one)})`} onPointerEnter={() => setTold(text)}>
                  <title>{text}</title>
                </rect>
              );
            })}
          </svg>
        </div>
      ))}
      <p class="small-text" aria-live="polite">{told || 'Point at a span to see what it is.'}</p>
    </div>
  );
}

function OneStep({name, first}: {name: string; first: number}) {
  const [step, setStep] = useState(first);
  const trace = usePolled(`step ${name} ${step}`, () => get<Trace>(`/runs/${segment(name)}/timeline?step=${step}`), 0);
  return (
    <>
      <div class="section-head">
        <h2>One step</h2>
        <label>Step <input type="number" min={0} value={step} onChange={(event) => setStep(Math.max(0, Math.trunc(Number(event.currentTarget.value)) || 0))} /></label>
      </div>
      <ErrorNote text={trace.error} again={trace.again} />
      {trace.data === null ? trace.error === '' && <Loading what={`step ${step}`} /> : <Strip key={step} trace={trace.data} />}
    </>
  );
}

async function load(name: string): Promise<TimelineSummary | 'none'> {
  try {
    return await get<TimelineSummary>(`/runs/${segment(name)}/timeline/summary`);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return 'none';
    throw error;
  }
}

export function TimelinePage({name}: {name: string}) {
  const loaded = usePolled(`timeline ${name}`, () => load(name), 0);
  const {busy, error, act} = useActions();
  const summary = loaded.data;
  const heading = <h1>Timeline of <a href={runHref(name)}>{name}</a></h1>;
  if (summary === null) return loaded.error === '' ? <Loading what={`the timeline of ${name}`} /> : <>{heading}<ErrorNote text={loaded.error} again={loaded.again} /></>;
  if (summary === 'none') {
    return <>{heading}<Empty title="This run recorded no timeline."><p>Start one with <code>mlbench run NAME K --timeline FILE</code>.</p></Empty></>;
  }
  const {pop, verdict} = summary;
  const cause = verdict.cause === null ? null : KIND_TITLES[verdict.cause] ?? verdict.cause;
  const known = summary.clocks.map((clock) => clock.bound_us).filter((bound) => bound !== null);
  return (
    <>
      <div class="page-head run-head">
        <div>
          {heading}
          <p class="soft">{plural(summary.workers, 'rank')}, clocks {known.length === 0 ? 'not known' : `known to ${seconds(Math.max(...known) / 1e6)}`}
            {summary.labels.map((label) => <span key={label} class="label">{label}</span>)}</p>
        </div>
        <div class="page-actions">
          <button type="button" disabled={busy !== ''} onClick={() => void act('save', () => downloadTimeline(name))}>{busy ? 'Downloading …' : 'Download the trace'}</button>
          <a class="button" href="https://perfetto.dev/docs/visualization/perfetto-ui" target="_blank" rel="noreferrer">How to open it</a>
        </div>
      </div>
      <ErrorNote text={error} />
      <div class="tiles">
        <div class="tile wide"><span class="tile-name">Verdict</span><span class="tile-value">{verdict.kind}</span><span>{verdict.text}</span></div>
        {verdict.rank !== null && <div class="tile"><span class="tile-name">Waited for</span><span class="tile-value">rank {verdict.rank}</span>{cause !== null && <span>because of: {cause}</span>}</div>}
        <div class="tile"><span class="tile-name">Parallel efficiency</span><span class="tile-value">{percent(pop.parallel_efficiency)}</span></div>
        <div class="tile"><span class="tile-name">Load balance</span><span class="tile-value">{percent(pop.load_balance)}</span></div>
        <div class="tile"><span class="tile-name">Communication efficiency</span><span class="tile-value">{percent(pop.communication_efficiency)}</span></div>
        <div class="tile"><span class="tile-name">Serialization</span><span class="tile-value">{percent(pop.serialization_efficiency)}</span></div>
        <div class="tile"><span class="tile-name">Transfer</span><span class="tile-value">{percent(pop.transfer_efficiency)}</span></div>
      </div>
      {summary.notes.length > 0 && <div class="note"><ul class="plain">{summary.notes.map((note) => <li key={note}>{note}</li>)}</ul></div>}
      <h2>The time of each rank</h2>
      <Ranks run={name} summary={summary} />
      <h2>Operations with most wait</h2>
      <Operations run={name} summary={summary} />
      <OneStep name={name} first={summary.operations.find((one) => one.worst?.step !== null && one.worst !== null)?.worst?.step ?? 0} />
    </>
  );
}
