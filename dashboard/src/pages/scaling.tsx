// Whether more workers are worth it: the answer, figures and charts of the studies that some runs make, as
// `mlbench charts` has them.

import {useMemo} from 'preact/hooks';
import {get, segment, usePolled} from '../api';
import {Chart} from '../chart';
import {ChosenRuns} from '../chosen_runs';
import {short} from '../comparison';
import {NONE, number, percent, seconds} from '../format';
import {go, scalingHref} from '../router';
import type {Line} from '../series';
import {TableBox} from '../table';
import type {LostEfficiency, RunPage, ScalingAnswer, Study, StudyPoint} from '../types';
import {Empty, ErrorNote, Loading} from '../ui';

const CAUSES: [string, string][] = [
  ['more_work', 'more steps to the goal'], ['compute', 'slower computation'], ['waiting', 'waiting for the slowest rank'],
  ['communication', 'exchange'], ['input', 'waiting for batches'], ['other', 'metrics, checkpoints'],
];

// No tick between two worker counts.
const workers = (value: number): string => Number.isInteger(value) ? String(value) : '';
const whole = (share: number): string => `${(share * 100).toFixed(0)} %`;
const span = (interval: [number, number] | null, format: (value: number) => string): string =>
  interval ? `${format(interval[0])} to ${format(interval[1])}` : NONE;
const ratio = (value: number | null): string => value === null ? NONE : short(value);

const bound = (cause: string, lost: LostEfficiency): string =>
  lost.exact ? '' : cause === 'waiting' ? '≥ ' : cause === 'communication' ? '≤ ' : '';

function Answer({study}: {study: Study}) {
  return (
    <div class="panel answer">
      {study.lines.map((line) => (
        <div key={line.name}>
          {study.lines.length > 1 && <h3>{line.name}</h3>}
          {line.answer.map((sentence) => <p key={sentence}>{sentence}</p>)}
        </div>
      ))}
    </div>
  );
}

function Figures({study, currency, file}: {study: Study; currency: string; file: string}) {
  const toGoal = study.unit === 'seconds to the goal';
  const columns: [string, (point: StudyPoint) => string][] = [
    ['Workers', (point) => String(point.workers)], ['Runs', (point) => String(point.runs.length)],
    [toGoal ? 'Time to goal' : 'Time per 1,000 samples', (point) => toGoal && point.seconds === null ? 'not reached' : seconds(point.seconds)],
    ['95 %', (point) => span(point.seconds_interval, seconds)],
    ['Speed-up', (point) => ratio(point.speed_up)], ['95 %', (point) => span(point.speed_up_interval, ratio)],
    ['Efficiency', (point) => point.efficiency === null ? NONE : whole(point.efficiency)],
    ['Gain', (point) => point.gain === null ? NONE : whole(point.gain)], ['95 %', (point) => span(point.gain_interval, whole)],
    [`Cost, ${currency}${toGoal ? '' : ' per million samples'}`, (point) => number(point.cost)],
    ['Communication', (point) => percent(point.communication_share)],
  ];
  const rows = study.lines.flatMap((line) => line.points.map((point) => ({line: line.name, point})));
  const shown = columns.filter(([, cell]) => rows.some(({point}) => cell(point) !== NONE));
  return (
    <TableBox title={`Figures of ${study.title}`} file={`${file}-figures`} shown="Figures">
      <table class="figures">
        <thead><tr>{study.lines.length > 1 && <th>Line</th>}{shown.map(([name], i) => <th class="num" key={i}>{name}</th>)}</tr></thead>
        <tbody>{rows.map(({line, point}) => (
          <tr key={`${line} ${point.workers}`}>{study.lines.length > 1 && <th>{line}</th>}{shown.map(([, cell], i) => <td class="num" key={i}>{cell(point)}</td>)}</tr>
        ))}</tbody>
      </table>
    </TableBox>
  );
}

// What of the efficiency is lost to which cause.
function Losses({study, file}: {study: Study; file: string}) {
  const rows = study.lines.flatMap((line) => line.points.flatMap((point) => point.lost_efficiency ? [{line: line.name, workers: point.workers, lost: point.lost_efficiency}] : []));
  if (rows.length === 0) return null;
  return (
    <>
      <TableBox title={`Lost efficiency by cause of ${study.title}`} file={`${file}-lost-efficiency`} shown="Lost efficiency by cause">
        <table class="figures">
          <thead><tr>{study.lines.length > 1 && <th>Line</th>}<th class="num">Workers</th><th class="num">Lost</th>{CAUSES.map(([cause, words]) => <th class="num" key={cause}>{words}</th>)}</tr></thead>
          <tbody>{rows.map(({line, workers, lost}) => (
            <tr key={`${line} ${workers}`}>{study.lines.length > 1 && <th>{line}</th>}<td class="num">{workers}</td><td class="num">{whole(lost.lost)}</td>
              {CAUSES.map(([cause]) => <td class="num" key={cause}>{bound(cause, lost)}{whole(lost.shares[cause] ?? 0)}</td>)}</tr>
          ))}</tbody>
        </table>
      </TableBox>
      <p class="soft">Shares of what is lost; their sum is 100 %, and one below 0 is a gain.</p>
    </>
  );
}

function Charts({study, file}: {study: Study; file: string}) {
  const made = useMemo(() => {
    const over = (figure: (point: StudyPoint) => number | null): Line[] => study.lines.map((line, i) => {
      const points = line.points.filter((point) => figure(point) !== null);
      return {label: line.name, colour: i, x: points.map((point) => point.workers), y: points.map(figure)};
    });
    const bands = study.lines.flatMap((line): Line[] => {
      const points = line.points.filter((point) => point.speed_up_interval !== null);
      return points.length === 0 ? [] : ([['low', 0], ['high', 1]] as const).map(([end, at]) => (
        {label: `${line.name}, 95 % ${end}`, guide: true, x: points.map((point) => point.workers), y: points.map((point) => point.speed_up_interval![at])}));
    });
    const counts = study.lines.flatMap((line) => line.points.map((point) => point.workers));
    const least = Math.min(...counts), most = Math.max(...counts);
    const linear: Line = {label: 'linear', guide: true, x: [least, most], y: [1, most / least]};
    return {speedUp: [...over((point) => point.speed_up), ...bands, linear], time: over((point) => point.seconds), cost: over((point) => point.cost)};
  }, [study]);
  const unit = study.unit === 'seconds to the goal' ? 'time to the goal' : 'time per 1,000 samples';
  return (
    <div class="charts">
      <Chart title="Speed-up" file={`${file}-speed-up`} xLabel="workers" xFormat={workers} yLabel="times as fast as the fewest workers" fromZero lines={made.speedUp} empty="No worker count has a speed-up." />
      <Chart title="Time" file={`${file}-time`} xLabel="workers" xFormat={workers} yLabel={unit} yQuantity="seconds" fromZero lines={made.time} empty="No worker count has a time." />
      <Chart title="Cost" file={`${file}-cost`} xLabel="workers" xFormat={workers} yLabel="cost" fromZero lines={made.cost} empty="No worker count has a cost." />
    </div>
  );
}

export function ScalingPage({query}: {query: URLSearchParams}) {
  const names = [...new Set((query.get('runs') ?? '').split(',').filter((name) => name !== ''))];
  const key = names.join(',');
  const known = usePolled('newest', () => get<RunPage>('/runs?limit=200'), 0).data?.runs ?? [];
  const polled = usePolled(`scaling ${key}`, async () => names.length === 0 ? null : get<ScalingAnswer>(`/scaling?runs=${names.map(segment).join(',')}`), 0);
  const data = polled.data;
  const show = (list: string[]) => go(list.length === 0 ? '#/scaling' : scalingHref(list), true);
  return (
    <>
      <div class="page-head"><div><h1>Scaling</h1><p class="soft">Are more workers worth it?</p></div></div>
      <ChosenRuns names={names} known={known} taken={new Set(names)} onChange={show} />
      <ErrorNote text={polled.error} again={polled.again} />
      {names.length === 0 && <Empty title="No run is chosen."><p class="soft">Add runs of one task with several worker counts, or select them on the page of <a href="#/runs">all runs</a>.</p></Empty>}
      {names.length > 0 && data === null && polled.error === '' && <Loading what="runs" />}
      {data && data.studies.length === 0 && <Empty title="These runs make no study."><p class="soft">A study needs a finished run that trained.</p></Empty>}
      {data?.studies.map((study, i) => (
        <section class="scaling" key={study.title}>
          <h2>{study.title}</h2>
          <Answer study={study} />
          <Figures study={study} currency={data.currency} file={`scaling-${i + 1}`} />
          <Losses study={study} file={`scaling-${i + 1}`} />
          <Charts study={study} file={`scaling-${i + 1}`} />
          <details><summary>Notes</summary>{study.notes.map((note) => <p class="soft" key={note}>{note}</p>)}</details>
        </section>
      ))}
      {data?.notes.map((note) => <p class="soft" key={note}>{note}</p>)}
      {data && data.studies.length > 0 && <p class="soft">Each worker is priced as {data.price}.</p>}
    </>
  );
}
