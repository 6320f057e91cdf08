// The pure functions of the page, for test/unit_test.mjs.
export * as collectives from '../src/collectives';
export * as comparison from '../src/comparison';
export * as events from '../src/events';
export * as format from '../src/format';
export * as request from '../src/request';
export * as runList from '../src/run_list';
export * as runSeries from '../src/run_series';
export * as runView from '../src/run_view';
export * as series from '../src/series';
export * as spans from '../src/spans';
export * as units from '../src/units';
