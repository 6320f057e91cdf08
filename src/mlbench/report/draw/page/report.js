'use strict';
// The page of `mlbench charts`: everything shown comes from the JSON block, as text only.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const palette = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#8a8a8a', '#a0674b', '#b8a900',
                   '#7d5fb2', '#c2185b', '#17a2b8', '#5f8080'];
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const drawn = [];  // {figure, chart, plot}

  const element = (name, text, ...children) => {
    const made = document.createElement(name);
    if (text !== null && text !== undefined) made.textContent = text;
    made.append(...children);
    return made;
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (value) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return '-';
    const size = Math.abs(value);
    if (size !== 0 && size < 0.001) return value.toPrecision(2);
    return size >= 99.95 ? value.toLocaleString('en', {maximumFractionDigits: 0})
      : value.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
  };

  // ---- charts ------------------------------------------------------------------------------------------------------

  // Series with x of their own to one table of columns; cells without a value are null.
  const aligned = (chart) => {
    if (chart.series.length === 0) return [[]];
    return uPlot.join(chart.series.map((one) => [one.x, one.y]));
  };

  const colourOf = (one) => one.guide || one.rings ? style('--soft') : palette[one.colour % palette.length];

  const options = (chart, width) => {
    const axis = {stroke: style('--soft'), grid: {stroke: style('--line'), width: 1}, ticks: {stroke: style('--line')}};
    const categories = chart.ticks.length > 0;
    const x = {...axis, label: chart.x_label, labelSize: 22};
    const axisNumber = (value) => value === null ? '' : String(Number(value.toPrecision(6)));
    const y = {...axis, label: chart.y_label, labelSize: 22, size: 64,
               values: (plot, splits) => splits.map(axisNumber)};
    if (chart.log_x) x.values = (plot, splits) => splits.map((value) => value === null ? '' : value.toExponential(0));
    const stacked = chart.kind === 'stacked_bars';
    const top = {};
    if (categories) {
      x.splits = () => chart.ticks.map((tick, index) => index);
      x.values = (plot, splits) => splits.map((index) => chart.ticks[index]);
      top.range = () => [-0.5, chart.ticks.length - 0.5];
    }
    const series = chart.series.map((one, index) => {
      const paint = colourOf(one);
      if (stacked) {
        return {label: one.name, stroke: paint, fill: paint, width: 0, points: {show: false},
                paths: uPlot.paths.bars({size: [0.6, 90]}),
                value: (plot, value, at, row) => row === null ? '-' : number(chart.own[index][row])};
      }
      if (one.rings) {
        return {label: one.name, stroke: paint, paths: () => null, points: {show: true, size: 12, width: 2, fill: 'transparent'},
                value: (plot, value) => number(value)};
      }
      return {label: one.name, stroke: paint, width: one.guide ? 1 : 2, dash: one.guide ? [6, 4] : undefined,
              points: {show: !one.guide && one.x.length <= 40, size: 6},
              value: (plot, value) => number(value)};
    });
    const range = (plot, low, high) => {
      if (low === null || high === null) return [0, 1];
      const from = chart.from_zero ? Math.min(0, low) : low, room = (high - from) * 0.06 || Math.abs(high) * 0.1 || 1;
      return [chart.from_zero ? from : from - room, high + room];
    };
    if (chart.log_x) top.distr = 3;
    return {width, height: 300, scales: {x: {time: false, ...top}, y: chart.log_y ? {distr: 3} : {range}},
            axes: [x, y], cursor: {drag: {x: !categories, y: false}},
            series: [{label: chart.x_label, value: (plot, value) => value === null ? '-'
              : categories ? chart.ticks[Math.round(value)] ?? '-' : number(value)}, ...series]};
  };

  // Bars are drawn one over the other, the highest sum first.
  const stack = (chart) => {
    const sums = chart.ticks.map(() => 0), own = [];
    const series = chart.series.map((one) => {
      own.push(chart.ticks.map((tick, index) => one.y[one.x.indexOf(index)] ?? 0));
      own.at(-1).forEach((value, index) => { sums[index] += value; });
      return {...one, x: chart.ticks.map((tick, index) => index), y: [...sums]};
    });
    return {...chart, series: series.reverse(), own: own.reverse()};
  };

  const draw = (entry) => {
    entry.plot?.destroy();
    const chart = entry.chart.kind === 'stacked_bars' ? stack(entry.chart) : entry.chart;
    entry.plot = new uPlot(options(chart, entry.place.clientWidth), aligned(chart), entry.place);
  };

  const save = (name, blob) => {
    const link = element('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const savePng = (entry) => {
    const from = entry.plot.ctx.canvas, to = element('canvas'), scale = devicePixelRatio || 1, head = 44 * scale;
    const context = to.getContext('2d'), small = `${12 * scale}px sans-serif`;
    context.font = small;
    let x = 12 * scale, y = head + from.height + 14 * scale;
    const legend = entry.chart.series.map((one) => {
      const width = context.measureText(one.name).width + 34 * scale;
      if (x > 12 * scale && x + width > from.width) {
        x = 12 * scale;
        y += 18 * scale;
      }
      x += width;
      return {one, x: x - width, y};
    });
    to.width = from.width;
    to.height = y + 10 * scale;
    context.fillStyle = style('--back');
    context.fillRect(0, 0, to.width, to.height);
    context.fillStyle = style('--text');
    context.font = `bold ${15 * scale}px sans-serif`;
    context.fillText(entry.chart.title, 12 * scale, 20 * scale, to.width - 24 * scale);
    context.font = small;
    context.fillText(subtitleOf(entry.chart), 12 * scale, 37 * scale, to.width - 24 * scale);
    context.drawImage(from, 0, head);
    for (const {one, x, y} of legend) {
      context.fillStyle = colourOf(one);
      context.fillRect(x, y - 10 * scale, 12 * scale, 12 * scale);
      context.fillStyle = style('--text');
      context.fillText(one.name, x + 16 * scale, y);
    }
    to.toBlob((blob) => save(`${entry.chart.id}.png`, blob));
  };
  const cell = (text) => {
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const saveCsv = (entry) => {
    const chart = entry.chart, columns = aligned(chart);
    const lines = [[chart.x_label, ...chart.series.map((one) => one.name)].map(cell).join(',')];
    columns[0].forEach((x, row) => {
      lines.push([chart.ticks.length > 0 ? cell(chart.ticks[x]) : x,
                  ...columns.slice(1).map((column) => column[row] ?? '')].join(','));
    });
    save(`${chart.id}.csv`, new Blob([`${lines.join('\n')}\n`], {type: 'text/csv'}));
  };

  const subtitleOf = (chart) => [chart.subtitle, chart.labels.join(', ')].filter((words) => words !== '').join('; ');

  const figure = (chart) => {
    const entry = {chart, place: element('div')};
    const button = (label, act) => {
      const made = element('button', label);
      made.type = 'button';
      made.setAttribute('aria-label', `${label} of ${chart.title}`);
      made.addEventListener('click', () => act(entry));
      return made;
    };
    entry.subtitle = element('p', subtitleOf(chart));
    const actions = element('div', null, button('PNG', savePng), button('CSV', saveCsv));
    actions.className = 'actions';
    const made = element('figure', null, element('figcaption', null, element('h3', chart.title), entry.subtitle),
                         entry.place, actions);
    drawn.push(entry);
    return made;
  };

  // ---- figures and prices ------------------------------------------------------------------------------------------

  // Where a step has several operations, wait and transfer are known as bounds alone.
  const bound = (words, point, share) => (share === null || point.exchange_exact ? '' : `${words} `) + number(share);
  const columns = [
    ['line', (line) => line.name], ['k', (line, point) => point.workers], ['runs', (line, point) => point.runs.length],
    ['time', (line, point) => number(point.seconds)], ['speed-up', (line, point) => number(point.speed_up)],
    ['compute-only', (line, point) => number(point.compute_speed_up)],
    ['efficiency', (line, point) => point.efficiency === null ? '-' : `${(100 * point.efficiency).toFixed(0)} %`],
    ['comm. / total', (line, point) => number(point.communication_share)],
    ['wait / total', (line, point) => bound('>=', point, point.wait_share)],
    ['transfer / total', (line, point) => bound('<=', point, point.transfer_share)],
    ['hidden / total', (line, point) => number(point.hidden_share)],
    ['comm. / compute', (line, point) => number(point.communication_per_compute)],
    ['cost', (line, point) => number(point.cost)], ['price index', (line, point) => number(point.price_index)],
    ['alpha', (line, point) => number(point.alpha)],
  ];
  const tables = [];
  const fillTable = ({study, table}) => {
    const points = study.lines.flatMap((line) => line.points.map((point) => [line, point]));
    const seldom = {'alpha': (point) => point.alpha !== null, 'hidden / total': (point) => point.hidden_share > 0};
    const shown = columns.filter(([name]) => !seldom[name] || points.some(([, point]) => seldom[name](point)));
    const head = element('tr', null, ...shown.map(([name]) => {
      const unit = name === 'time' ? ` (${study.unit})` : name === 'cost' ? ` (${data.prices.currency})` : '';
      const made = element('th', name + unit);
      made.scope = 'col';
      return made;
    }));
    const rows = points.map(([line, point]) =>
      element('tr', null, ...shown.map(([, value]) => element('td', String(value(line, point))))));
    table.replaceChildren(element('thead', null, head), element('tbody', null, ...rows));
  };

  // cost = billed seconds / 3600 x workers x price; per million samples where seconds are per 1,000.
  const reprice = (perHour, words) => {
    for (const study of data.studies) {
      const units = study.unit === 'seconds to the goal' ? 1 : 1000;
      for (const line of study.lines) {
        for (const point of line.points) {
          point.cost = point.billed_s === null ? null : point.billed_s * units / 3600 * point.workers * perHour;
        }
      }
      const chart = study.charts.find((one) => one.id.endsWith('cost'));
      if (!chart) continue;
      chart.subtitle = words;
      for (const one of chart.series) {
        const line = study.lines.find((candidate) => candidate.name === one.name);
        const points = line.points.filter((point) => point.cost !== null);
        one.y = points.map((point) => point.cost);
      }
      const entry = drawn.find((candidate) => candidate.chart === chart);
      entry.subtitle.textContent = subtitleOf(chart);
      draw(entry);
    }
    tables.forEach(fillTable);
  };

  // Benchmarks of collectives have charts alone: nothing of them has a price.
  const timed = data.studies.filter((study) => study.lines.length > 0);

  const priceEditor = () => {
    const chosen = new Set(data.worker.split('+'));
    const preemptible = element('input');
    preemptible.type = 'checkbox';
    preemptible.checked = data.preemptible;
    const total = element('strong');
    const rows = data.prices.prices.map((price) => {
      const use = element('input');
      use.type = 'checkbox';
      use.checked = chosen.has(price.name);
      use.setAttribute('aria-label', `a worker has ${price.name}`);
      const amount = (key, label) => {
        const input = element('input');
        input.type = 'number';
        input.min = '0';
        input.step = 'any';
        input.value = price[key] ?? '';
        input.setAttribute('aria-label', `${price.name}, ${label} price per hour`);
        input.addEventListener('input', update);
        return input;
      };
      const row = {use, per_hour: amount('per_hour', 'regular'),
                   preemptible_per_hour: amount('preemptible_per_hour', 'preemptible'), name: price.name};
      use.addEventListener('change', update);
      row.element = element('tr', null, element('td', null, use, ` ${price.name}`), element('td', null, row.per_hour),
                            element('td', null, row.preemptible_per_hour), element('td', price.date),
                            element('td', price.source));
      return row;
    });
    preemptible.addEventListener('change', update);
    function update() {
      const key = preemptible.checked ? 'preemptible_per_hour' : 'per_hour';
      const used = rows.filter((row) => row.use.checked);
      const known = used.length > 0 && used.every((row) => row[key].value !== '' && Number(row[key].value) >= 0);
      const perHour = known ? used.reduce((sum, row) => sum + Number(row[key].value), 0) : NaN;
      const dates = [...new Set(data.prices.prices.filter((price) => used.some((row) => row.name === price.name))
        .map((price) => price.date).filter((date) => date !== ''))].sort();
      const words = known
        ? `${used.map((row) => row.name).join(' + ')}${preemptible.checked ? ', preemptible' : ''}: `
          + `${Number(perHour.toFixed(6))} ${data.prices.currency}/h per worker`
          + `${dates.length > 0 ? ` (price of ${dates.join(' and ')})` : ''}, ${timed[0].billed_clock} clock`
        : 'no price is known for this worker';
      total.textContent = words;
      reprice(perHour, words);
    }
    total.textContent = data.price_note;
    const head = element('tr', null, ...['a worker has', `regular, ${data.prices.currency}/h`,
      `preemptible, ${data.prices.currency}/h`, 'date', 'source'].map((text) => element('th', text)));
    const table = element('div', null, element('table', null, element('thead', null, head),
                                               element('tbody', null, ...rows.map((row) => row.element))));
    table.className = 'scroll';
    return element('fieldset', null, element('legend', 'Prices (edit them: cost follows)'), table,
                   element('label', null, preemptible, ' preemptible'), total);
  };

  // ---- the page ----------------------------------------------------------------------------------------------------

  const list = (notes) => element('ul', null, ...notes.map((note) => element('li', note)));
  const main = document.querySelector('main');
  main.append(element('h1', 'mlbench report'), element('p', data.made));
  if (data.notes.length > 0) main.append(list(data.notes));
  for (const chart of data.studies.flatMap((study) => study.charts)) {
    let colour = 0;
    for (const one of chart.series) one.colour ??= one.guide || one.rings ? 0 : colour++;
  }
  for (const study of data.studies) {
    const table = element('table'), scroll = element('div', null, table), charts = element('div');
    scroll.className = 'scroll';
    charts.className = 'charts';
    const section = element('section', null, element('h2', study.title));
    for (const line of study.lines) {
      const sentences = list(line.answer);
      sentences.className = 'answer';
      if (study.lines.length > 1) section.append(element('h3', line.name));
      section.append(sentences);
    }
    if (study.lines.length > 0) {
      tables.push({study, table});
      fillTable({study, table});
      section.append(scroll);
    }
    section.append(list(study.notes), charts);
    main.append(section);
    charts.append(...study.charts.map(figure));
  }
  if (timed.length > 0) main.append(priceEditor());
  const drawAll = () => drawn.forEach(draw);
  drawAll();
  dark.addEventListener('change', drawAll);
  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const entry of drawn) entry.plot.setSize({width: entry.place.clientWidth, height: 300});
  });
})();
