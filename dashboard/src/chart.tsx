// One chart: a figure with its legend, to be read with the mouse, the keyboard, as PNG and as CSV. Names reach the page
// and the picture as text only; the library draws lines and axes.

import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import {save} from './api';
import {NONE, number, visible} from './format';
import {aboveZero, csv, linesCsv, table, type Column, type Line} from './series';
import {colour, useThemeRound} from './theme';
import {axisTitle, unitOf, type Quantity, type Unit} from './units';

export const COLOURS = 9;
const HEIGHT = 260;

// The part of x that is looked at, null for all of it. Charts that are given the same one follow each other.
export type Range = [number, number];
export interface Zoom {
  range: Range | null;
  set: (range: Range | null) => void;
}

// For charts that follow each other as long as they have this axis.
export function useZoom(axis: string): Zoom {
  const [state, setState] = useState<{axis: string; range: Range | null}>({axis, range: null});
  const range = state.axis === axis ? state.range : null;
  return useMemo(() => ({range, set: (next: Range | null) => setState({axis, range: next})}), [axis, range]);
}

export interface ChartProps {
  title: string;
  file: string;           // of the downloads, without its ending
  xLabel: string;
  xQuantity?: Quantity;   // else a plain number; values are in its own unit: seconds, bytes
  yLabel: string;
  yQuantity?: Quantity | undefined;
  rightLabel?: string | undefined;  // of the axis at the right, where lines have one
  rightQuantity?: Quantity | undefined;
  lines: Line[];
  zoom?: Zoom;
  note?: string;
  empty?: string;         // what to say when there is nothing to draw
  kind?: 'lines' | 'stacked' | 'bars';  // bars: x counts the categories; both are stacked
  categories?: string[];
  fromZero?: boolean;
  yMax?: number | null;   // the axis reaches at least to it
  xRange?: [number, number];
  xTime?: boolean;        // x is seconds since 1970
  xFormat?: (value: number) => string;
  log?: '' | 'x' | 'y' | 'xy';  // which axes are logarithmic
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

// What is drawn: all lines in the units of the axes, those that were measured faintly behind the smoothed ones.
interface Drawn {
  lines: Line[];
  faint: number;   // how many of them, at the end
  left: number;    // values that a logarithmic axis cannot show
  x: Unit;
  y: Unit;
  right: Unit;
}

const largest = (values: (number | null)[]): number => values.reduce<number>((most, value) => Math.max(most, Math.abs(value ?? 0)), 0);
const divided = (values: (number | null)[], by: number): (number | null)[] => by === 1 ? values : values.map((value) => value === null ? null : value / by);

function drawnOf(props: ChartProps): Drawn {
  const log = props.log ?? '';
  const {lines, left} = log === '' ? {lines: props.lines, left: 0} : aboveZero(props.lines, log.includes('x'), log.includes('y'));
  const most = (right: boolean) => Math.max(right ? 0 : props.yMax ?? 0, ...lines.map((line) => (line.right ?? false) === right ? largest(line.y) : 0));
  const x = unitOf(props.xQuantity, Math.max(0, ...lines.map((line) => largest(line.x)), ...(props.xRange ?? [])));
  const y = unitOf(props.yQuantity, most(false)), right = unitOf(props.rightQuantity, most(true));
  const scaled = lines.map((line) => {
    const by = (line.right ? right : y).factor;
    return {...line, x: divided(line.x, x.factor) as number[], y: divided(line.y, by), ...(line.measured ? {measured: divided(line.measured, by)} : {})};
  });
  const faint = scaled.flatMap((line) => line.measured ? [{...line, y: line.measured}] : []);
  return {lines: [...scaled, ...faint], faint: faint.length, left, x, y, right};
}

function drawData(props: ChartProps, drawn: Drawn, hidden: Set<string>): uPlot.AlignedData {
  const {x, columns} = table(drawn.lines);
  if (props.kind !== 'stacked' && props.kind !== 'bars') return [x, ...columns];
  // The highest sum is drawn first, what lies lower over it.
  const guides = props.lines.map((line) => line.guide === true);
  const shown = props.lines.map((line, i) => !guides[i] && !hidden.has(line.label));
  return [x, ...stack(columns, shown).reverse()];
}

interface Told {
  onCursor: (index: number | null) => void;
  onZoom: (range: Range | null) => void;
}

function options(props: ChartProps, drawn: Drawn, hidden: Set<string>, width: number, told: Told): uPlot.Options {
  const stacked = props.kind === 'stacked' || props.kind === 'bars';
  const log = props.log ?? '', font = '12px system-ui, sans-serif';
  const axis: uPlot.Axis = {
    stroke: colour('--soft'), font, labelFont: font, labelSize: 20, labelGap: 2,
    grid: {stroke: colour('--grid'), width: 1}, ticks: {stroke: colour('--grid'), width: 1, size: 4},
  };
  const x: uPlot.Axis = {...axis, size: 28, space: 56, ...(props.xTime || props.kind === 'bars' ? {} : {label: axisTitle(props.xLabel, drawn.x)})};
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
    x.values = (self, splits) => {
      // A logarithmic axis labels every power of ten, however narrow it is.
      const powers = splits.filter((value) => value !== null).length;
      const every = log.includes('x') ? Math.max(1, Math.ceil(powers * 48 / self.width)) : 1;
      let at = 0;
      return splits.map((value) => value === null || at++ % every > 0 ? '' : props.xFormat?.(value) ?? value.toLocaleString('en'));
    };
  }
  const y: uPlot.Axis = {
    ...axis, space: 32, label: axisTitle(props.yLabel, drawn.y),
    values: (_, splits) => splits.map((value) => value === null ? '' : number(value, 4)),
    size: (self, values) => {
      if (!values) return 44;
      self.ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      return Math.ceil(Math.max(...values.map((text) => self.ctx.measureText(text).width)) / devicePixelRatio) + 12;
    },
  };
  const rangeOf = (fromZero: boolean | undefined, yMax: number | null | undefined) => (_: uPlot, low: number | null, high: number | null): Range => {
    if (low === null || high === null) return [0, yMax ?? 1];
    const from = fromZero ? Math.min(0, low) : low;
    const to = Math.max(high, yMax ?? high);
    const room = (to - from) * 0.06 || Math.abs(to) * 0.1 || 1;
    return [fromZero && from === 0 ? 0 : from - room, to === yMax ? to + room / 2 : to + room];
  };
  const logRange = (_: uPlot, low: number | null, high: number | null): Range =>
    low === null || high === null || low <= 0 ? [1, 10] : uPlot.rangeLog(low, high, 10, false) as Range;
  const one = (line: Line, index: number): uPlot.Series => {
    const faint = index >= drawn.lines.length - drawn.faint;
    const stroke = faint ? `${paint(line, index)}4d` : paint(line, index);
    const base: uPlot.Series = {label: '', stroke, show: !hidden.has(line.label), scale: line.right ? 'right' : 'y'};
    if (props.kind === 'bars') return {...base, fill: stroke, width: 0, points: {show: false}, paths: uPlot.paths.bars!({size: [0.6, 90]})};
    if (props.kind === 'stacked') return {...base, fill: stroke, width: 1, points: {show: false}};
    return {
      ...base, width: line.guide || faint ? 1.25 : 1.75, points: {show: !line.guide && !faint && !props.xTime && line.x.length <= 30, size: 5},
      ...(line.guide ? {dash: [6, 4]} : line.right ? {dash: [8, 3]} : {}),
    };
  };
  const series = drawn.lines.map((line, i) => one({...line, colour: line.colour ?? (i < props.lines.length ? i : props.lines.findIndex((other) => other.label === line.label))}, i));
  const xRange = (): Range | undefined => props.kind === 'bars' ? [-0.5, (props.categories ?? []).length - 0.5]
    : props.xRange && [props.xRange[0] / drawn.x.factor, props.xRange[1] / drawn.x.factor];
  const fixed = props.kind === 'bars' || props.xTime === true;
  const right = drawn.lines.some((line) => line.right);
  const scaleOf = (range: ReturnType<typeof rangeOf>): uPlot.Scale => log.includes('y') ? {distr: 3, range: logRange} : {range};
  return {
    width, height: HEIGHT, padding: [8, right ? 0 : 12, 0, 0],
    scales: {
      x: log.includes('x') ? {time: false, distr: 3, range: logRange} : {time: props.xTime === true, ...(xRange() ? {range: () => xRange() ?? [0, 1]} : {})},
      y: scaleOf(rangeOf(props.fromZero, props.yMax == null ? props.yMax : props.yMax / drawn.y.factor)), ...(right ? {right: scaleOf(rangeOf(false, null))} : {}),
    },
    axes: [x, y, ...(right ? [{...y, side: 1, scale: 'right', grid: {show: false}, label: axisTitle(props.rightLabel ?? '', drawn.right)} as uPlot.Axis] : [])],
    legend: {show: false},
    cursor: {drag: {x: !fixed, y: false, setScale: false}, points: {size: 6}, y: false, bind: {dblclick: () => () => {
      told.onZoom(null);
      return null;
    }}},
    series: [{}, ...(stacked ? series.reverse() : series)],
    hooks: {
      setCursor: [(self) => told.onCursor(self.cursor.idx ?? null)],
      setSelect: [(self) => {
        const {left, width: wide} = self.select;
        if (wide < 3) return;
        self.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
        told.onZoom([self.posToVal(left, 'x') * drawn.x.factor, self.posToVal(left + wide, 'x') * drawn.x.factor]);
      }],
    },
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
  draw.fillText(visible(props.note ?? ''), pad, pad + 20 * scale, source.width);
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

const withUnit = (label: string, quantity: Quantity | undefined): string =>
  quantity === undefined ? label : `${label}, ${{'seconds': 's', 'bytes': 'B', 'bytes/s': 'B/s'}[quantity]}`;

// What was measured, whatever is drawn.
function csvOf(props: ChartProps): string {
  const lines = props.lines.map((line) => ({...line, label: withUnit(line.label, line.guide ? undefined : line.right ? props.rightQuantity : props.yQuantity), y: line.measured ?? line.y}));
  if (props.kind !== 'bars') return linesCsv(withUnit(props.xLabel, props.xQuantity), lines);
  const {x, columns} = table(lines);
  return csv([props.xLabel, ...lines.map((line) => line.label)],
    x.map((at, i) => [props.categories?.[at] ?? String(at), ...columns.map((column) => column[i] ?? null)]));
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const [own, setOwn] = useState<Range | null>(null);
  const zoom = props.zoom ?? {range: own, set: setOwn};
  const theme = useThemeRound();
  const drawn = useMemo(() => drawnOf(props), [props.lines, props.log, props.xQuantity, props.yQuantity, props.rightQuantity, props.yMax, props.xRange?.[1]]);
  const latest = useRef({props, drawn, zoom});
  latest.current = {props, drawn, zoom};
  const points = props.lines.reduce((sum, line) => sum + (line.guide ? 0 : line.x.length), 0);
  const nothing = points === 0;
  const part = zoom.range;

  const showPart = (made: uPlot) => {
    const {zoom: {range}, drawn: {x}} = latest.current;
    if (range !== null) made.setScale('x', {min: range[0] / x.factor, max: range[1] / x.factor});
  };
  // What makes another chart of it, not just other numbers.
  const shape = [theme, nothing, props.kind, props.xTime, props.log, props.title, props.xLabel, props.yLabel, props.rightLabel, props.categories?.join('\n'),
    props.xRange !== undefined, drawn.x.name, drawn.y.name, drawn.right.name,
    drawn.lines.map((line) => `${line.label}\t${line.guide}\t${line.colour}\t${line.right}`).join('\n'), [...hidden].join('\n'),
    props.kind !== undefined || props.lines.some((line) => line.x.length > 30)].join('|');
  useEffect(() => {
    if (nothing || place.current === null) return undefined;
    const parent = place.current;
    // What it is made with is read when it draws, so that new numbers do not need a new chart.
    const now = new Proxy({} as ChartProps, {get: (_, key) => latest.current.props[key as keyof ChartProps]});
    const made = new uPlot(options(now, latest.current.drawn, hidden, parent.clientWidth, {onCursor: setCursor, onZoom: (range) => latest.current.zoom.set(range)}),
      drawData(now, latest.current.drawn, hidden), parent);
    plot.current = made;
    showPart(made);
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
    made.setData(drawData(props, drawn, hidden), part === null);
    if (part !== null) showPart(made);
  }, [drawn, props.xRange?.[0], part?.[0], part?.[1]]);

  const {x, columns} = useMemo(() => table(drawn.lines), [drawn]);
  const shownUnit = (index: number): Unit => props.lines[index]!.right ? drawn.right : drawn.y;
  const textOf = (index: number): string => {
    const value = shownValue(index);
    return props.format ? props.format(value) : value === null || shownUnit(index).name === '' ? number(value, 4) : `${number(value, 4)} ${shownUnit(index).name}`;
  };
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
    : props.xTime ? new Date(x[at]! * 1000).toLocaleTimeString() : `${props.xLabel} ${props.xFormat ? x[at]!.toLocaleString('en') : number(x[at]! / drawn.x.factor, 5)}${drawn.x.name && ` ${drawn.x.name}`}`;
  // Half of what is shown, or twice, around the cursor.
  const zoomBy = (factor: number) => {
    const {min, max} = plot.current!.scales['x']!;
    const middle = at === null ? (min! + max!) / 2 : x[at]!, half = (max! - min!) * factor / 2;
    const from = Math.max(x[0]!, middle - half), to = Math.min(x.at(-1)!, middle + half);
    zoom.set(from <= x[0]! && to >= x.at(-1)! || to <= from ? null : [from * drawn.x.factor, to * drawn.x.factor]);
  };
  const mayZoom = props.kind !== 'bars' && !props.xTime && !props.log?.includes('x');
  const onKey = (event: KeyboardEvent) => {
    const made = plot.current;
    const move = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
    const factor = mayZoom ? {'+': 0.5, '-': 2}[event.key] : undefined;
    if (made === null || (move === 0 && factor === undefined && event.key !== 'Escape')) return;
    event.preventDefault();
    if (factor !== undefined) return zoomBy(factor);
    if (move === 0) return at === null ? zoom.set(null) : made.setCursor({left: -10, top: -10});
    const next = at === null ? (move < 0 ? x.length - 1 : 0) : Math.min(x.length - 1, Math.max(0, at + move * (event.shiftKey ? 10 : 1)));
    made.setCursor({left: made.valToPos(x[next]!, 'x'), top: 20});
  };
  const toggle = (label: string) => setHidden((old) => {
    const next = new Set(old);
    if (!next.delete(label)) next.add(label);
    return next;
  });
  const summary = props.lines.flatMap((line, i) => line.guide ? [] : [`${line.label}: ${textOf(i)}`]).slice(0, 4).join(', ');
  const axes = `${axisTitle(props.yLabel, drawn.y)}${props.rightLabel ? ` and ${axisTitle(props.rightLabel, drawn.right)}` : ''}${props.xTime || props.kind === 'bars' ? '' : ` over ${axisTitle(props.xLabel, drawn.x)}`}`;
  const note = [props.note, drawn.left > 0 ? `${drawn.left} values of 0 or less are not drawn` : ''].filter(Boolean).join(' · ');

  return (
    <figure class="chart" data-points={points} data-chart={props.file} data-part={part?.map((value) => value.toPrecision(4)).join(' ')}>
      <figcaption>
        <div>
          <h3>{props.title}</h3>
          {note !== '' && <p class="soft">{note}</p>}
        </div>
        <div class="actions">
          {part !== null && <button type="button" class="small" aria-label={`${props.title}: show all`} onClick={() => zoom.set(null)}>Show all</button>}
          <button type="button" class="small" disabled={nothing} aria-label={`${props.title} as PNG`}
            onClick={() => plot.current && void savePng(plot.current, props, hidden)}>PNG</button>
          <button type="button" class="small" disabled={nothing} aria-label={`${props.title} as CSV`}
            onClick={() => save(new Blob([csvOf(props)], {type: 'text/csv;charset=utf-8'}), `${safeFile(props.file)}.csv`)}>CSV</button>
        </div>
      </figcaption>
      {nothing ? <div class="plot none"><p class="soft">{props.empty ?? 'No values yet.'}</p></div> : (
        <div class="plot" ref={place} tabIndex={0} role="img" onKeyDown={onKey} onBlur={() => plot.current?.setCursor({left: -10, top: -10})}
          aria-label={`${props.title}: ${axes}. Last values: ${summary}. Arrow keys move along the chart${mayZoom ? ', + and - zoom' : ''}.`} />
      )}
      {!nothing && (
        <div class="legend">
          {props.lines.map((line, i) => (
            <button key={line.label} type="button" aria-pressed={!hidden.has(line.label)} onClick={() => toggle(line.label)}>
              <Swatch index={(line.colour ?? i) % COLOURS} guide={line.guide === true} />
              <span class="legend-name">{line.label}</span> <span class="legend-value">{hidden.has(line.label) ? NONE : textOf(i)}</span>
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
