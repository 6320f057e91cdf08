// One chart: a figure with its legend, to be read with the mouse, the keyboard, as PNG and as CSV. Names reach the page
// and the picture as text only; the library draws lines and axes.

import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import {save} from './api';
import {NONE, number, visible} from './format';
import {csv, linesCsv, table, type Column, type Line} from './series';
import {colour, useThemeRound} from './theme';

export const COLOURS = 9;
const HEIGHT = 240;

export interface ChartProps {
  title: string;
  file: string;           // of the downloads, without its ending
  xLabel: string;
  yLabel: string;
  lines: Line[];
  note?: string;
  empty?: string;         // what to say when there is nothing to draw
  kind?: 'lines' | 'stacked' | 'bars';  // bars: x counts the categories; both are stacked
  categories?: string[];
  fromZero?: boolean;
  yMax?: number | null;   // the axis reaches at least to it
  xRange?: [number, number];
  xTime?: boolean;        // x is seconds since 1970
  xFormat?: (value: number) => string;
  log?: boolean;          // both axes; all values are above 0
  format?: (value: number | null) => string;
}

const paint = (line: Line, index: number): string =>
  line.guide ? colour('--soft') : colour(`--series-${(line.colour ?? index) % COLOURS}`);

const safeFile = (name: string): string => name.replaceAll(/[^A-Za-z0-9._-]+/g, '-');

// Stacked columns: each the sum of its own and all before.
function stack(columns: Column[], shown: boolean[]): Column[] {
  const sums: number[] = (columns[0] ?? []).map(() => 0);
  return columns.map((column, c) => {
    if (!shown[c]) return column.map(() => null);
    return column.map((value, i) => sums[i]! += value ?? 0);
  });
}

function drawData(props: ChartProps, hidden: Set<string>): uPlot.AlignedData {
  const {x, columns} = table(props.lines);
  if (props.kind !== 'stacked' && props.kind !== 'bars') return [x, ...columns];
  // The highest sum is drawn first, what lies lower over it.
  const guides = props.lines.map((line) => line.guide === true);
  const shown = props.lines.map((line, i) => !guides[i] && !hidden.has(line.label));
  return [x, ...stack(columns, shown).reverse()];
}

function options(props: ChartProps, hidden: Set<string>, width: number, onCursor: (index: number | null) => void): uPlot.Options {
  const stacked = props.kind === 'stacked' || props.kind === 'bars';
  const axis: uPlot.Axis = {
    stroke: colour('--soft'), font: '11px system-ui, sans-serif', labelFont: '11px system-ui, sans-serif',
    grid: {stroke: colour('--grid'), width: 1}, ticks: {stroke: colour('--grid'), width: 1, size: 4},
  };
  const x: uPlot.Axis = {...axis, size: 34, space: 56};
  if (props.kind === 'bars') {
    const names = props.categories ?? [];
    x.splits = () => names.map((_, i) => i);
    // What tells two runs of one command apart is the end of their names.
    x.values = (self, splits) => {
      const room = Math.max(4, Math.floor(self.width / names.length / 7.5));
      return splits.map((i) => names[i] ?? '').map((name) => name.length > room ? `…${name.slice(1 - room)}` : name);
    };
    x.grid = {show: false};
  } else if (props.xTime) {
    x.values = (_, splits) => splits.map((value) => new Date(value * 1000).toTimeString().slice(0, 5));
  } else {
    x.values = (_, splits) => splits.map((value) => value === null ? '' : props.xFormat?.(value) ?? value.toLocaleString('en'));
  }
  const y: uPlot.Axis = {
    ...axis, space: 32,
    values: (_, splits) => splits.map((value) => value === null ? '' : number(value, 4)),
    size: (self, values) => {
      if (!values) return 44;
      self.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      return Math.ceil(Math.max(...values.map((text) => self.ctx.measureText(text).width)) / devicePixelRatio) + 14;
    },
  };
  const range = (_: uPlot, low: number | null, high: number | null): [number, number] => {
    if (low === null || high === null) return [0, props.yMax ?? 1];
    const from = props.fromZero ? Math.min(0, low) : low;
    const to = Math.max(high, props.yMax ?? high);
    const room = (to - from) * 0.06 || Math.abs(to) * 0.1 || 1;
    return [props.fromZero && from === 0 ? 0 : from - room, to === props.yMax ? to + room / 2 : to + room];
  };
  const logRange = (_: uPlot, low: number | null, high: number | null): [number, number] =>
    low === null || high === null || low <= 0 ? [1, 10] : uPlot.rangeLog(low, high, 10, false) as [number, number];
  const one = (line: Line, index: number): uPlot.Series => {
    const stroke = paint(line, index);
    const base: uPlot.Series = {label: '', stroke, show: !hidden.has(line.label)};
    if (props.kind === 'bars') return {...base, fill: stroke, width: 0, points: {show: false}, paths: uPlot.paths.bars!({size: [0.6, 90]})};
    if (props.kind === 'stacked') return {...base, fill: stroke, width: 1, points: {show: false}};
    return {
      ...base, width: line.guide ? 1.25 : 1.75, points: {show: !line.guide && !props.xTime && line.x.length <= 30, size: 5},
      ...(line.guide ? {dash: [6, 4]} : {}),
    };
  };
  const drawn = props.lines.map(one);
  const xRange = (): [number, number] | undefined => props.kind === 'bars' ? [-0.5, (props.categories ?? []).length - 0.5] : props.xRange;
  const fixed = xRange() !== undefined;
  return {
    width, height: HEIGHT, padding: [8, 12, 0, 0],
    scales: props.log ? {x: {time: false, distr: 3, range: logRange}, y: {distr: 3, range: logRange}}
      : {x: {time: props.xTime === true, ...(fixed ? {range: () => xRange() ?? [0, 1]} : {})}, y: {range}},
    axes: [x, y],
    legend: {show: false},
    cursor: {drag: {x: !fixed, y: false}, points: {size: 6}, y: false},
    series: [{}, ...(stacked ? drawn.reverse() : drawn)],
    hooks: {setCursor: [(self) => onCursor(self.cursor.idx ?? null)]},
  };
}

// The picture as it is seen, with what stands around it on the page.
async function savePng(plot: uPlot, props: ChartProps, hidden: Set<string>): Promise<void> {
  const source = plot.ctx.canvas, scale = devicePixelRatio, pad = 14 * scale;
  const font = (size: number, weight = '') => `${weight} ${size * scale}px system-ui, sans-serif`;
  const shown = props.lines.filter((line) => !hidden.has(line.label));
  const canvas = document.createElement('canvas');
  canvas.width = source.width + 2 * pad;
  const draw = canvas.getContext('2d')!;
  // The legend's rows, before the height is known.
  draw.font = font(12);
  const places: {line: Line; x: number; row: number}[] = [];
  let x = 0, row = 0;
  for (const line of shown) {
    const width = draw.measureText(line.label).width + 34 * scale;
    if (x > 0 && x + width > source.width) {
      x = 0;
      ++row;
    }
    places.push({line, x, row});
    x += width;
  }
  const top = pad + 44 * scale, legend = (row + 1) * 20 * scale;
  canvas.height = top + source.height + legend + pad;
  draw.fillStyle = colour('--panel');
  draw.fillRect(0, 0, canvas.width, canvas.height);
  draw.textBaseline = 'top';
  draw.fillStyle = colour('--text');
  draw.font = font(15, '600');
  draw.fillText(visible(props.title), pad, pad, source.width);
  draw.fillStyle = colour('--soft');
  draw.font = font(12);
  draw.fillText(visible(`${props.yLabel} over ${props.xLabel}`), pad, pad + 20 * scale, source.width);
  draw.drawImage(source, pad, top);
  for (const place of places) {
    const y = top + source.height + place.row * 20 * scale + 4 * scale;
    draw.fillStyle = paint(place.line, props.lines.indexOf(place.line));
    draw.fillRect(pad + place.x, y + 5 * scale, 14 * scale, 3 * scale);
    draw.fillStyle = colour('--text');
    draw.font = font(12);
    draw.fillText(visible(place.line.label), pad + place.x + 20 * scale, y);
  }
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'));
  if (blob) save(blob, `${safeFile(props.file)}.png`);
}

function csvOf(props: ChartProps): string {
  if (props.kind !== 'bars') return linesCsv(props.xLabel, props.lines);
  const {x, columns} = table(props.lines);
  return csv([props.xLabel, ...props.lines.map((line) => line.label)],
    x.map((at, i) => [props.categories?.[at] ?? String(at), ...columns.map((column) => column[i] ?? null)]));
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const theme = useThemeRound();
  const latest = useRef(props);
  latest.current = props;
  const points = props.lines.reduce((sum, line) => sum + (line.guide ? 0 : line.x.length), 0);
  const nothing = points === 0;

  // What makes another chart of it, not just other numbers.
  const shape = [theme, nothing, props.kind, props.xTime, props.title, props.xLabel, props.yLabel, props.categories?.join('\n'),
    props.lines.map((line) => `${line.label}\t${line.guide}\t${line.colour}`).join('\n'), [...hidden].join('\n'),
    props.kind !== undefined || props.lines.some((line) => line.x.length > 30)].join('|');
  useEffect(() => {
    if (nothing || place.current === null) return undefined;
    const parent = place.current;
    // What it is made with is read when it draws, so that new numbers do not need a new chart.
    const made = new uPlot(options(new Proxy({} as ChartProps, {get: (_, key) => latest.current[key as keyof ChartProps]}),
      hidden, parent.clientWidth, setCursor), drawData(latest.current, hidden), parent);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (parent.clientWidth > 0) made.setSize({width: parent.clientWidth, height: HEIGHT});
    });
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    const made = plot.current;
    if (made === null) return;
    // Who looks at a part goes on looking at it while the run goes on.
    const {min, max} = made.scales['x']!, before = made.data[0];
    const part = min != null && max != null && (min > before[0]! || max < before[before.length - 1]!);
    const zoomed = part && props.kind !== 'bars' && !props.xRange && before.length > 1;
    made.setData(drawData(props, hidden), !zoomed);
    if (zoomed) made.setScale('x', {min, max});
  }, [props.lines, props.xRange?.[0], props.xRange?.[1]]);

  const {x, columns} = useMemo(() => table(props.lines), [props.lines]);
  const format = props.format ?? ((value: number | null) => number(value, 4));
  const at = cursor !== null && cursor < x.length ? cursor : null;
  // Where the cursor is; without one the last value of each line. A line without a value at that x shows its nearest.
  const shownValue = (index: number): number | null => {
    const column = columns[index]!;
    const from = at ?? column.length - 1;
    for (let i = from; i >= 0; --i) {
      const value = column[i];
      if (value !== undefined) return value;
    }
    return null;
  };
  const xText = at === null ? '' : props.kind === 'bars' ? props.categories?.[x[at]!] ?? ''
    : props.xTime ? new Date(x[at]! * 1000).toLocaleTimeString() : `${props.xLabel} ${props.log ? x[at]!.toLocaleString('en') : number(x[at]!, 5)}`;
  const onKey = (event: KeyboardEvent) => {
    const made = plot.current;
    const move = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
    if (made === null || (move === 0 && event.key !== 'Escape')) return;
    event.preventDefault();
    if (move === 0) return made.setCursor({left: -10, top: -10});
    const next = at === null ? (move < 0 ? x.length - 1 : 0) : Math.min(x.length - 1, Math.max(0, at + move * (event.shiftKey ? 10 : 1)));
    made.setCursor({left: made.valToPos(x[next]!, 'x'), top: 20});
  };
  const toggle = (label: string) => setHidden((old) => {
    const next = new Set(old);
    if (!next.delete(label)) next.add(label);
    return next;
  });
  const summary = props.lines.filter((line) => !line.guide).slice(0, 4)
    .map((line, i) => `${line.label}: ${format(shownValue(i))}`).join(', ');

  return (
    <figure class="chart" data-points={points} data-chart={props.file}>
      <figcaption>
        <div>
          <h3>{props.title}</h3>
          <p class="soft">{props.yLabel}{props.kind === 'bars' ? '' : props.xTime ? '' : ` over ${props.xLabel}`}{props.note && ` · ${props.note}`}</p>
        </div>
        <div class="actions">
          <button type="button" class="small" disabled={nothing} aria-label={`${props.title} as PNG`}
            onClick={() => plot.current && void savePng(plot.current, props, hidden)}>PNG</button>
          <button type="button" class="small" disabled={nothing} aria-label={`${props.title} as CSV`}
            onClick={() => save(new Blob([csvOf(props)], {type: 'text/csv;charset=utf-8'}), `${safeFile(props.file)}.csv`)}>CSV</button>
        </div>
      </figcaption>
      {nothing ? <div class="plot none"><p class="soft">{props.empty ?? 'No values yet.'}</p></div> : (
        <div class="plot" ref={place} tabIndex={0} role="img" onKeyDown={onKey} onBlur={() => plot.current?.setCursor({left: -10, top: -10})}
          aria-label={`${props.title}. Last values: ${summary}. Arrow keys move along the chart.`} />
      )}
      {!nothing && (
        <div class="legend">
          {props.lines.map((line, i) => (
            <button key={line.label} type="button" aria-pressed={!hidden.has(line.label)} onClick={() => toggle(line.label)}>
              <Swatch index={(line.colour ?? i) % COLOURS} guide={line.guide === true} />
              <span class="legend-name">{line.label}</span> <span class="legend-value">{hidden.has(line.label) ? NONE : format(shownValue(i))}</span>
            </button>
          ))}
          <span class="legend-x">{xText}</span>
        </div>
      )}
    </figure>
  );
}

function Swatch({index, guide}: {index: number; guide: boolean}) {
  return <span class={guide ? 'swatch guide' : 'swatch'} style={guide ? {} : {background: `var(--series-${index})`}} />;
}
