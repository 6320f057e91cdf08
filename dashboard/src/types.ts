// Answers of /api/v1, as api/openapi.json describes them.

export type State = 'queued' | 'running' | 'finished' | 'failed' | 'stopped' | 'damaged';

export interface Goal {
  metric: string;
  split: string;
  target: number;
  higher_is_better?: boolean;  // absent where a script names a metric that is not known
  target_loss?: number;
  reached: boolean;
  value: number | null;
  epoch: number | null;
  step: number | null;
  train_s: number | null;
  best?: {value: number; epoch: number; step: number; train_s: number} | null;  // absent of a custom run without a declared goal
}

export interface RunSummary {
  id: number | null;
  name: string;
  state: State;
  task?: string | null;
  rules?: string | null;
  variant?: string | null;
  division?: string | null;
  framework?: string | null;
  backend?: string | null;
  executor?: string | null;
  created_at?: string | null;
  started_at?: string | null;
  workers?: number | null;
  threads_per_worker?: number | null;
  seed?: number | null;
  labels?: string[];
  tags?: string[];
  goal?: Goal | null;
  time_to_goal_s?: number | null;
  train_s?: number | null;
  wall_s?: number | null;
  samples_per_s?: number | null;
  communication_share?: number | null;
  evaluation?: string;
  failure?: string;
  shared_host?: boolean;
  // A run of MLflow's clients, whose name is "mlflow:" and its id, has these:
  title?: string;
  experiment?: string;
  experiment_id?: string;
  // In lists:
  configuration?: string | null;  // runs with the same one repeat each other; null: damaged
  repeats?: RepeatSamples;
}

// What lists can show of runs, also of those members of a summary that RunSummary does not name.
export interface Figure {
  key: string;   // a member of RunSummary; goal_MEMBER: of its goal
  title: string;
  unit: string;
  form: string;  // how people read the value
}

// A run with its repeats, as `mlbench compare` has it.
export interface RepeatSamples {
  runs: number;
  reached: number;
  time_to_goal_s: Sample;
  samples_per_s: Sample;
}

export type NoteName = 'description' | 'cluster' | 'firewall' | 'expected' | 'summary' | 'next_steps';

export interface RunNotes extends Record<NoteName, string> {
  tags: string[];
}

export type Filter = 'state' | 'task' | 'workers' | 'executor' | 'label' | 'tag';

export interface RunPage {
  total: number;  // rows
  count: number;  // runs in them
  choices: Record<Filter, Record<string, number>>;  // values to filter by, with their numbers of runs
  limit: number;
  offset: number;
  runs: RunSummary[];
}

export interface Evaluation {
  step: number;
  epoch: number;
  split: string;
  cadence?: boolean;  // false: brought about by a limit, meets no goal
  train_s: number;
  wall_s: number;
  metrics: Record<string, number | null>;
}

export type Json = null | boolean | number | string | Json[] | {[key: string]: Json};

export interface Failure {
  kind: string;
  rank: number | null;
  host: string | null;
  operation: string | null;
  message: string;
  log_tail: string[];
}

// The times of each rank. Not exact: the true wait is at least, the true transfer at most this.
export interface Exchange {
  wait_s: number[];
  transfer_s: number[];
  exact: boolean;
  steps: number;
}

// A size of a benchmark of collectives, api/collectives.schema.json: microseconds, GB/s.
export interface CollectiveForm {
  time: number;
  alg_bw: number;
  bus_bw: number | null;
  nwrong: number | null;  // null: not checked
  iterations: {count: number; p50: number; p99: number} | null;
  copies: boolean;
  capped: boolean;
}

export interface CollectiveRow {
  operation: string;
  size: number;
  count: number;
  type: string;
  redop: string;
  root: number;
  device: string;
  out_of_place: CollectiveForm | null;
  in_place: CollectiveForm | null;
}

export interface PairMatrix {
  hosts: string[];  // of each rank
  latency_bytes: number;
  bandwidth_bytes: number;
  window: number;
  latency: (number | null)[][];
  bandwidth: (number | null)[][];
  slow: Json[];
  verdict: string;
}

export interface Energy {
  joules: number | null;  // null where a host's is not known
  to_goal_joules: number | null;
  hosts: {host: string; meter: string | null; joules: number | null}[];
}

export interface RunRecord extends RunSummary {
  overrides: {key: string; value: string}[];
  notes: string[];
  task_hash: string;
  oversubscribed: boolean;
  shared_host: boolean;
  engine: {cpus: number | null} | null;
  stop_reason: string | null;
  comm_stack: string | null;
  requested: Record<string, Json>;
  effective: Record<string, Json>;
  limits: Record<string, Json>;
  data: Record<string, Json>;
  environment: Record<string, Json>;
  hosts: Record<string, Json>[];
  energy?: Energy | null;  // null before ranks worked
  exit_codes: (number | null)[] | null;
  steps_s: Record<string, number>;
  exchange: Exchange | null;
  evaluations: Evaluation[];
  parameters: number | null;
  custom: {command: string[]; declared?: {task: string; data: string; goal: string}; result: Json} | null;
  collectives: {results: CollectiveRow[]; pairs: PairMatrix | null} | null;
}

// The record's `failure` is an object, the summary's a text.
export type FullRecord = Omit<RunRecord, 'failure'> & {failure: Failure | null};

export interface Progress {
  segment: number;
  prepared: boolean;
  training: boolean;
  steps_done: number;
  last_step: number;
  steps_per_epoch: number;
  evaluation: {epoch?: number; step?: number; metrics?: Record<string, number | null>} | null;
  loss: number | null;
  samples_per_s: number | null;
}

export interface Metric {
  split: string;  // train, test, or none
  metric: string;
}

export interface SeriesHead extends Metric {
  rank: number | 'all';
  count: number;
  merge?: 'mean' | 'sum';  // of `ranks` ranks; absent: as it was measured
  ranks?: number;
}

export interface SeriesPoints extends SeriesHead {
  points: {
    step: number[];
    time_us: number[];
    mean: (number | null)[];
    min?: (number | null)[];  // not of merged ranks
    max?: (number | null)[];
    points: number[];
  };
}

export interface Task {
  name: string;
  rules: string | null;
  title: string;
  variants: string[];
  workers: number[];
  data: string | null;
  goal: {metric: string; split: string; target: number; light_target: number | null; higher_is_better: boolean} | null;  // null: it trains nothing
}

export interface Choice {
  name: string;
  available: boolean;
  reason?: string;
  algorithms?: string[];  // of a communication backend
  convolutions?: string[];  // of a framework: the orders of sums that can be chosen
  options?: string[];     // of an executor: what its engine can be told, by the names of RunRequest
  usual?: boolean;        // of an executor: runs that name none have it
  gpus?: number | null;   // of an executor: that its hosts have for ranks; null: not known before a run
}

export interface Catalog {
  frameworks: Choice[];
  backends: Choice[];
  executors: Choice[];
  devices?: Choice[];
}

export interface Cluster {
  name: string;
  slots: number;
  oversubscribes: boolean;
  waiting: string[];
}

// A node of an executor's cluster; null is what the engine does not tell.
export interface ClusterNode {
  name: string;
  state: string;
  ready: boolean | null;
  cpus: number | null;
  memory_bytes: number | null;
  gpus: number | null;
  slots: number | null;
}

export interface NodeCluster {
  executor: string;
  context: string | null;
  usual: boolean;
  nodes: ClusterNode[];
  problem: string | null;
}

// What a rank used when it was seen last; null is what is not known.
export interface RankOnNode {
  run: string;
  rank: number;
  executor: string;
  node: string | null;
  cpu_cores: number | null;
  memory_bytes: number | null;
  network_in_bytes_per_s: number | null;
  network_out_bytes_per_s: number | null;
}

export interface NodePage {
  clusters: NodeCluster[];
  ranks: RankOnNode[];
}

export interface HostSamples {
  time_us: number[];
  cpu: number[];
  memory: number[];
  network_in: number[];
  network_out: number[];
}

export interface Gpu {
  name: string;
  memory_mib: number;
  samples: {time_us: number[]; utilisation: number[]; memory: number[]};
}

export interface Host {
  host: string;
  cores: number;
  memory_mib: number | null;
  samples: HostSamples;
  gpus?: Gpu[];
}

export interface PlannedRun {
  name: string;
  taken: boolean;
  task: string;
  rules: string | null;
  variant: string | null;
  division: string;
  framework: string;
  backend: string;
  device: string;
  workers: number;
  threads_per_worker: number;
  cpus: number | null;  // the limit of each container
  seed: number;
  data: string;
  light: boolean;
  overrides: {key: string; value: string}[];
}

export interface Plan {
  runs: PlannedRun[];
  warnings: string[];
}

export interface Scaling {
  speed_up: number;
  efficiency: number;
}

export interface Scaled {
  to_goal: Scaling | null;
  rate: Scaling | null;
  baseline: string;  // '' where there is none
  no_ratio: string;  // why
}

export type ComparedRun = RunSummary & Scaled;

// The mean of repeats and its 95 % interval.
export interface Sample {
  values: number[];
  mean: number | null;
  mean_is: 'arithmetic' | 'geometric';
  interval: [number, number] | null;
}

export interface Ratio {
  ratio: number;
  interval: [number, number] | null;
}

// A run with its repeats, as `mlbench compare` has it; ratios are to the first.
export interface RepeatedRun {
  name: string;
  repeats: string[];
  shown: string;  // the repeat that is drawn
  words: Record<string, string>;  // the command line's cells, by the names of figures here
  runs: number;
  reached: number;
  time_to_goal_s: Sample;
  samples_per_s: Sample;
  value_after: Sample;
  communication_per_compute: Sample;
  labels: string[];
  differs_in: string[];
  no_ratio: string | null;
  paired_by_seed: boolean;
  time_to_goal_ratio: Ratio | null;
  samples_per_s_ratio: Ratio | null;
  value_after_ratio: Ratio | null;
  scaling: Scaled;
}

export interface Comparison {
  baseline: string;  // of all runs; '' where there is none, or several
  baseline_workers: number;
  notes: string[];
  runs: ComparedRun[];  // each repeat
  repeated: {runs: RepeatedRun[]; metric: string; split: string; after_s: number | null; notes: string[]};
}

// ---- how runs scale: GET /scaling ------------------------------------------------------------------------------------

// Shares of what is lost by cause: more_work, compute, waiting, communication, input, other.
export interface LostEfficiency {
  lost: number;
  exact: boolean;  // false: waiting is at least, communication at most this
  shares: Record<string, number>;
}

export interface StudyPoint {
  workers: number;
  runs: string[];
  seconds: number | null;
  seconds_interval: [number, number] | null;
  speed_up: number | null;
  speed_up_interval: [number, number] | null;
  efficiency: number | null;
  gain: number | null;
  gain_interval: [number, number] | null;
  lost_efficiency: LostEfficiency | null;
  cost: number | null;
  communication_share: number | null;
}

export interface Study {
  title: string;
  unit: string;  // of seconds
  lines: {name: string; answer: string[]; knee: number | null; points: StudyPoint[]}[];
  notes: string[];
}

export interface ScalingAnswer {
  studies: Study[];
  price: string;
  currency: string;
  notes: string[];
}

export interface Log {
  rank: number | 'supervisor' | 'all';  // all: of the page, not in a list of the API
  segment: number;
  stream: 'stdout' | 'stderr' | 'both';  // both: of all
  bytes: number;
}

// ---- timelines: $defs/summary of api/timeline.schema.json, and its events ---------------------------------------------

export interface TimelineRank {
  rank: number;
  elapsed_s: number;
  compute_s: number;
  input_s: number;
  exchange_s: number;
  evaluation_s: number;
  checkpoint_s: number;
  prepare_s: number;
  unattributed_s: number;
  communication: {wait_s: number; transfer_s: number; unmatched_s: number; hidden_s: number};
  waits_for: {rank: number; s: number}[];
}

export interface TimelineSummary {
  workers: number;
  labels: string[];
  verdict: {kind: string; text: string; rank: number | null; cause: string | null};
  ranks: TimelineRank[];
  pop: Record<'parallel_efficiency' | 'load_balance' | 'communication_efficiency' | 'serialization_efficiency' | 'transfer_efficiency', number | null>;
  operations: {
    name: string; bytes: number; count: number; wait_s: number; transfer_s: number; verdict: string;
    worst: {wait_s: number; step: number | null; rank: number | null} | null;
  }[];
  clocks: {bound_us: number | null}[];
  notes: string[];
}

export interface TraceEvent {
  name: string;
  cat: string;
  ph: 'X' | 'M';
  pid: number;
  tid: number;
  ts: number;   // microseconds
  dur: number;
  args?: {name?: string; wait_us?: number; waited_for?: number};
}

export interface Trace {
  traceEvents: TraceEvent[];
}
