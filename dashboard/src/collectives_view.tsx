// What a benchmark of collectives measured: charts over the size, the table, the matrix of pairs.

import {useMemo, useState} from 'preact/hooks';
import {Chart} from './chart';
import {badness, FORMS, groupsOf, linesOfRun, linesOfRuns, MEASURES, shortSize, stallsOf, type Measure} from './collectives';
import {NONE, number} from './format';
import {TableBox} from './table';
import type {CollectiveForm, CollectiveRow, PairMatrix} from './types';
import {Segmented} from './ui';

const CHOICES = (Object.keys(MEASURES) as Measure[]).map((name) => [name, MEASURES[name].title] as const);

// The charts of one run, or of several side by side.
export function CollectiveCharts({runs, file, empty}: {runs: {label: string; rows: CollectiveRow[]}[]; file: string; empty: string}) {
  const [measure, setMeasure] = useState<Measure>('time');
  const charts = useMemo(() => groupsOf(runs.flatMap((run) => run.rows)).map((group) => ({
    group, lines: runs.length === 1 ? linesOfRun(runs[0]!.rows, group, measure) : linesOfRuns(runs, group, measure),
  })), [runs, measure]);
  return (
    <>
      <div class="section-head">
        <h2>By size</h2>
        <Segmented label="What is drawn" value={measure} choices={CHOICES} onChoose={setMeasure} />
      </div>
      <div class="charts">
        {charts.length === 0 && <div class="empty"><p class="empty-title">{empty}</p></div>}
        {charts.map(({group, lines}) => (
          <Chart key={group} title={`${MEASURES[measure].title}: ${group}`} file={`${file}-${group}-${measure}`} log="xy" xLabel="bytes" xFormat={shortSize}
            yLabel={MEASURES[measure].unit} lines={lines} empty={empty} note={measure === 'time' ? ['median of the iterations', stallsOf(lines)].filter(Boolean).join('; ') : ''} />
        ))}
      </div>
    </>
  );
}

function Cells({form}: {form: CollectiveForm | null}) {
  if (form === null) return <>{[0, 1, 2, 3].map((at) => <td key={at} class="num soft">{NONE}</td>)}</>;
  return (
    <>
      <td class="num" title={form.iterations ? `${form.iterations.count} iterations, median ${number(form.iterations.p50)}, 99 % ${number(form.iterations.p99)}` : ''} data-value={form.time}>{number(form.time, 4)}{form.capped && '*'}</td>
      <td class="num" data-value={form.alg_bw}>{number(form.alg_bw)}</td><td class="num" data-value={form.bus_bw ?? ''}>{number(form.bus_bw)}</td>
      <td class={form.nwrong ? 'num failure-cell' : 'num'}>{form.nwrong ?? NONE}</td>
    </>
  );
}

export function CollectiveTable({run, rows}: {run: string; rows: CollectiveRow[]}) {
  const capped = rows.some((row) => row.out_of_place?.capped || row.in_place?.capped);
  return (
    <>
      <h2>Rows</h2>
      <TableBox title="Rows of the benchmark" file={`${run}-rows`} tall>
        <table class="figures rows">
          <thead>
            <tr><td colSpan={6} />{FORMS.map(([name, words]) => <th key={name} colSpan={4} class="num">{words}</th>)}</tr>
            <tr><th>Operation</th><th class="num">Bytes</th><th class="num">Elements</th><th>Type</th><th>Reduction</th><th class="num">Root</th>
              {FORMS.flatMap(([name]) => ['µs', 'alg GB/s', 'bus GB/s', 'wrong'].map((head) => <th key={`${name} ${head}`} class="num">{head}</th>))}</tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={i}>
                <th>{row.operation}</th><td class="num" data-value={row.size}>{row.size.toLocaleString('en')}</td><td class="num" data-value={row.count}>{row.count.toLocaleString('en')}</td>
                <td>{row.type}</td><td>{row.redop}</td><td class="num">{row.root < 0 ? NONE : row.root}</td>
                <Cells form={row.out_of_place} /><Cells form={row.in_place} />
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
      {capped && <p class="soft">* ended by the cap on time before all iterations</p>}
    </>
  );
}

function Matrix({title, file, values, higherIsBetter, hosts}: {title: string; file: string; values: (number | null)[][]; higherIsBetter: boolean; hosts: string[]}) {
  const shares = badness(values, higherIsBetter);
  return (
    <TableBox title={title} file={file} shown={title}>
      <table class="figures heat">
        <thead><tr><th>from \ to</th>{values.map((_, to) => <th key={to} class="num" title={hosts[to] ?? ''}>{to}</th>)}</tr></thead>
        <tbody>
          {values.map((row, from) => (
            <tr key={from}>
              <th title={hosts[from] ?? ''}>{from}</th>
              {row.map((value, to) => <td key={to} class="num" data-value={value ?? ''}
                style={from === to ? {} : {background: `color-mix(in srgb, var(--danger) ${Math.round(45 * (shares[from]![to] ?? 0))}%, var(--panel))`}}>{from === to ? NONE : number(value)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

export function Pairs({run, pairs}: {run: string; pairs: PairMatrix}) {
  return (
    <>
      <h2>Pairs of ranks</h2>
      <p class={pairs.slow.length > 0 ? 'note error' : 'note'}>Slow: {pairs.verdict}</p>
      <div class="charts two">
        <Matrix file={`${run}-bandwidth`} title={`Bandwidth, GB/s, ${pairs.window} messages of ${pairs.bandwidth_bytes.toLocaleString('en')} bytes`} values={pairs.bandwidth} higherIsBetter hosts={pairs.hosts} />
        <Matrix file={`${run}-latency`} title={`Latency, µs, ${pairs.latency_bytes} bytes, half the round trip`} values={pairs.latency} higherIsBetter={false} hosts={pairs.hosts} />
      </div>
    </>
  );
}
