// What runs and waits; the nodes of the executors' clusters and what ranks use of them; what the master's own host did
// in the last 30 minutes.

import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {get, usePolled} from '../api';
import {Chart} from '../chart';
import {bytes, NONE, number, plural, taskLabel} from '../format';
import {runHref} from '../router';
import {rates, type Line} from '../series';
import {TableBox} from '../table';
import type {Cluster, ClusterNode, Host, NodeCluster, NodePage, RankOnNode, RunPage} from '../types';
import {Empty, ErrorNote, Loading} from '../ui';

const WINDOW_S = 1800;
const PERIOD_MS = 2000;
const NODES_PERIOD_MS = 10000;  // the master asks engines no more often

// Keeps what came before, asks for what came since.
async function more(old: Map<string, Host>): Promise<Map<string, Host>> {
  const last = Math.max(0, ...[...old.values()].map((host) => host.samples.time_us.at(-1) ?? 0));
  const {hosts} = await get<{hosts: Host[]}>(`/hosts?from_time_us=${last === 0 ? 0 : last + 1}`);
  const next = new Map<string, Host>();
  for (const host of hosts) {
    const before = old.get(host.host);
    const oldest = (host.samples.time_us.at(-1) ?? last) - WINDOW_S * 1e6;
    const keep = before === undefined ? 0 : Math.max(0, before.samples.time_us.findIndex((time) => time >= oldest));
    const join = (a: number[] | undefined, b: number[]) => [...(a?.slice(keep) ?? []), ...b];
    const gpus = host.gpus?.map((gpu, i) => {
      // Their samples have times of their own: one may come twice.
      const was = before?.gpus?.[i]?.samples, now = gpu.samples;
      const from = was?.time_us.findIndex((time) => time >= oldest) ?? 0;
      const fresh = now.time_us.findIndex((time) => time > (was?.time_us.at(-1) ?? 0));
      const all = (a: number[] | undefined, b: number[]) => [...(a?.slice(Math.max(0, from)) ?? []), ...(fresh < 0 ? [] : b.slice(fresh))];
      return {...gpu, samples: {
        time_us: all(was?.time_us, now.time_us), utilisation: all(was?.utilisation, now.utilisation), memory: all(was?.memory, now.memory),
      }};
    });
    next.set(host.host, {
      ...host,
      ...(gpus ? {gpus} : {}),
      memory_mib: host.memory_mib ?? before?.memory_mib ?? null,
      samples: {
        time_us: join(before?.samples.time_us, host.samples.time_us), cpu: join(before?.samples.cpu, host.samples.cpu),
        memory: join(before?.samples.memory, host.samples.memory),
        network_in: join(before?.samples.network_in, host.samples.network_in),
        network_out: join(before?.samples.network_out, host.samples.network_out),
      },
    });
  }
  return next;
}

function HostCharts({host}: {host: Host}) {
  const {samples} = host;
  const end = (samples.time_us.at(-1) ?? 0) / 1e6;
  const made = useMemo(() => {
    const x = samples.time_us.map((time) => time / 1e6);
    const line = (label: string, y: (number | null)[], colour = 0): Line[] => [{label, x, y, colour}];
    return {
      cpu: line('in use', samples.cpu),
      memory: line('in use', samples.memory.map((mib) => mib / 1024), 2),
      network: [...line('in', rates(samples.time_us, samples.network_in), 5), ...line('out', rates(samples.time_us, samples.network_out), 1)],
      gpu: (host.gpus ?? []).flatMap((gpu, i) => line(`GPU ${i}`, gpu.samples.utilisation, i)),
      gpuMemory: (host.gpus ?? []).flatMap((gpu, i) => line(`GPU ${i}`, gpu.samples.memory.map((mib) => mib / 1024), i)),
    };
  }, [host]);
  const common = {xLabel: 'time', xTime: true, fromZero: true, xRange: [end - WINDOW_S, end] as [number, number], empty: 'The first sample comes in a moment.'};
  const file = (what: string) => `${host.host}-${what}`;
  return (
    <div class="charts">
      <Chart {...common} title="CPU" file={file('cpu')} yLabel={`cores in use, of ${host.cores}`} yMax={host.cores} lines={made.cpu} />
      <Chart {...common} title="Memory" file={file('memory')} yLabel={`GiB in use${host.memory_mib ? `, of ${number(host.memory_mib / 1024)}` : ''}`}
        yMax={host.memory_mib === null ? null : host.memory_mib / 1024} lines={made.memory} />
      <Chart {...common} title="Network" file={file('network')} yLabel="MiB per second, without loopback" yMax={0.01} lines={made.network} />
      {made.gpu.length > 0 && <Chart {...common} title="GPU" file={file('gpu')} yLabel="percent busy" yMax={100} lines={made.gpu} />}
      {made.gpuMemory.length > 0 && <Chart {...common} title="GPU memory" file={file('gpu-memory')} yLabel="GiB in use" lines={made.gpuMemory}
        yMax={Math.max(...(host.gpus ?? []).map((gpu) => gpu.memory_mib)) / 1024} />}
    </div>
  );
}

function Tile({name, value, unit}: {name: string; value: string; unit: string}) {
  return <div class="tile"><span class="tile-name">{name}</span><span class="tile-value">{value}<small> {unit}</small></span></div>;
}

const orNone = <T,>(value: T | null, text: (value: T) => string): string => value === null ? NONE : text(value);
const rate = (value: number | null): string => orNone(value, (one) => `${bytes(one)}/s`);

function NodeRow({node, ranks}: {node: ClusterNode; ranks: RankOnNode[]}) {
  return (
    <tr>
      <th>{node.name}</th><td>{node.ready === false && <span class="badge failed">not ready</span>} {node.state || NONE}</td>
      <td class="num">{orNone(node.cpus, (cpus) => number(cpus))}</td><td class="num">{orNone(node.memory_bytes, bytes)}</td><td class="num">{orNone(node.gpus, String)}</td>
      <td class="num">{orNone(node.slots, String)}</td><td class="num">{ranks.length}</td>
    </tr>
  );
}

function Nodes({cluster, ranks}: {cluster: NodeCluster; ranks: RankOnNode[]}) {
  const name = `Nodes of ${cluster.executor}${cluster.context === null ? '' : ` (${cluster.context})`}`;
  return (
    <section>
      <h2>{name}<span class="soft"> · {plural(cluster.nodes.length, 'node')}</span></h2>
      {cluster.problem !== null && <p class="note">{cluster.problem}</p>}
      {cluster.nodes.length > 0 && <TableBox title={name} file={`nodes-${cluster.executor}`}>
        <table class="figures">
          <thead><tr><th>Node</th><th>State</th><th class="num">CPUs</th><th class="num">Memory</th><th class="num">GPUs</th><th class="num">Slots</th><th class="num">Ranks</th></tr></thead>
          <tbody>{cluster.nodes.map((node) => <NodeRow key={node.name} node={node} ranks={ranks.filter((rank) => rank.executor === cluster.executor && rank.node === node.name)} />)}</tbody>
        </table>
      </TableBox>}
    </section>
  );
}

function Ranks({ranks}: {ranks: RankOnNode[]}) {
  return (
    <section>
      <h2>What ranks use</h2>
      <TableBox title="What ranks use" file="ranks">
        <table class="figures">
          <thead><tr><th>Run</th><th class="num">Rank</th><th>Node</th><th class="num">Cores</th><th class="num">Memory</th><th class="num">Network in</th><th class="num">Network out</th></tr></thead>
          <tbody>{ranks.map((rank) => (
            <tr key={`${rank.run} ${rank.rank}`}>
              <th><a href={runHref(rank.run)}>{rank.run}</a></th><td class="num">{rank.rank}</td><td>{rank.node ?? NONE}</td>
              <td class="num">{orNone(rank.cpu_cores, (cores) => number(cores, 2))}</td><td class="num">{orNone(rank.memory_bytes, bytes)}</td>
              <td class="num">{rate(rank.network_in_bytes_per_s)}</td><td class="num">{rate(rank.network_out_bytes_per_s)}</td>
            </tr>
          ))}</tbody>
        </table>
      </TableBox>
      <p class="soft">The network is that of the rank's pod, or of its whole host, which the first rank there stands for. On this host it is in the chart below.</p>
    </section>
  );
}

export function ClusterPage() {
  const kept = useRef(new Map<string, Host>());
  const [hosts, setHosts] = useState<Host[] | null>(null);
  const polled = usePolled('/hosts', async () => kept.current = await more(kept.current), PERIOD_MS);
  useEffect(() => { if (polled.data) setHosts([...polled.data.values()]); }, [polled.data]);
  const clusters = usePolled('/clusters', () => get<{clusters: Cluster[]}>('/clusters'), PERIOD_MS);
  const running = usePolled('running', () => get<RunPage>('/runs?state=running&limit=50'), PERIOD_MS);
  const nodes = usePolled('/nodes', () => get<NodePage>('/nodes'), NODES_PERIOD_MS);
  const last = (host: Host, of: 'cpu' | 'memory') => host.samples[of].at(-1) ?? null;

  return (
    <>
      <div class="page-head"><div><h1>Cluster</h1><p class="soft">What runs, nodes and what ranks use of them; the host of the master in the last 30 minutes</p></div></div>
      <ErrorNote text={polled.error || clusters.error || running.error || nodes.error} />
      {hosts === null && polled.error === '' && <Loading what="hosts" />}
      {(clusters.data?.clusters ?? []).map((cluster) => {
        const runs = running.data?.runs ?? [];
        return (
          <section class="panel" key={cluster.name}>
            <h2>{cluster.name}<span class="soft"> · {plural(cluster.slots, 'slot')}</span></h2>
            <div class="columns">
              <div>
                <h3>Running</h3>
                {runs.length === 0 ? <p class="soft">Nothing runs.</p> : (
                  <ul class="plain">{runs.map((run) => (
                    <li key={run.name}><a href={runHref(run.name)}>{run.name}</a>
                      <span class="soft"> {taskLabel(run)} · {plural(run.workers ?? 0, 'worker')} × {plural(run.threads_per_worker ?? 0, 'CPU')}</span></li>
                  ))}</ul>
                )}
              </div>
              <div>
                <h3>Waiting</h3>
                {cluster.waiting.length === 0 ? <p class="soft">Nothing waits.</p> : (
                  <ol class="plain numbered">{cluster.waiting.map((name) => <li key={name}><a href={runHref(name)}>{name}</a></li>)}</ol>
                )}
              </div>
            </div>
          </section>
        );
      })}
      {(nodes.data?.clusters ?? []).map((cluster, i) => <Nodes key={i} cluster={cluster} ranks={nodes.data!.ranks} />)}
      {nodes.data !== null && nodes.data.ranks.length > 0 && <Ranks ranks={nodes.data.ranks} />}
      {hosts?.length === 0 && <Empty title="No host is known." />}
      {(hosts ?? []).map((host) => (
        <section key={host.host} aria-label={`Host ${host.host}`}>
          <h2>{host.host}</h2>
          <div class="tiles">
            <Tile name="CPU" value={number(last(host, 'cpu'), 2)} unit={`of ${plural(host.cores, 'core')}`} />
            <Tile name="Memory" value={number((last(host, 'memory') ?? NaN) / 1024)} unit={host.memory_mib ? `of ${number(host.memory_mib / 1024)} GiB` : 'GiB'} />
            <Tile name="Network in" value={number(rates(host.samples.time_us, host.samples.network_in).at(-1), 2)} unit="MiB/s" />
            <Tile name="Network out" value={number(rates(host.samples.time_us, host.samples.network_out).at(-1), 2)} unit="MiB/s" />
            {(host.gpus ?? []).map((gpu, i) => <Tile key={i} name={`GPU ${i}: ${gpu.name}`} value={number(gpu.samples.utilisation.at(-1), 2)} unit="% busy" />)}
          </div>
          <HostCharts host={host} />
        </section>
      ))}
    </>
  );
}
