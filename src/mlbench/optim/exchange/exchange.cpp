#include "mlbench/optim/exchange/exchange.h"

#include <algorithm>
#include <iterator>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/async_server.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/exchange/choco.h"
#include "mlbench/optim/exchange/gossip.h"
#include "mlbench/optim/exchange/local.h"
#include "mlbench/optim/exchange/push_sum.h"
#include "mlbench/optim/exchange/quantised.h"
#include "mlbench/optim/exchange/server.h"
#include "mlbench/optim/exchange/sharded.h"
#include "mlbench/optim/exchange/streaming.h"

namespace mlbench::optim {

namespace {

constexpr Range kBucketRange{0, 1 << 20};  // MiB
constexpr Range kIntervals{1, 1e12};       // steps
constexpr Range kSteps{0, 1e12};
constexpr Range kConsensusRates{0, 1};
constexpr Range kFragments{1, 1e6};
constexpr Range kMixing{0, 1};
constexpr Range kServers{1, 1e6};
constexpr Range kStaleness{0, 1e3};  // steps

MakeExchange read_centralized(OptionReader& options) {
  CentralizedOptions centralized;
  centralized.by_layer = options.flag("by_layer", false);
  centralized.bucket_mb = options.number("bucket_mb", 0, kBucketRange);
  centralized.overlap = options.flag("overlap", false);
  return [centralized](const ExchangeContext& context) {
    return std::make_unique<CentralizedExchange>(context, centralized);
  };
}

MakeExchange read_local(OptionReader& options) {
  LocalOptions local;
  local.every = options.integer("every", local.every, kIntervals);
  local.start_step = options.integer("start_step", local.start_step, kSteps);
  local.outer = read_outer_options(options);
  return [local](const ExchangeContext& context) { return std::make_unique<LocalExchange>(context, local); };
}

MakeExchange read_gossip(OptionReader& options) {
  GossipOptions gossip;
  gossip.graph = read_graph(options);
  gossip.every = options.integer("every", gossip.every, kIntervals);
  return [gossip](const ExchangeContext& context) { return std::make_unique<GossipExchange>(context, gossip); };
}

MakeExchange read_sharded(OptionReader&) {
  return [](const ExchangeContext& context) { return std::make_unique<ShardedExchange>(context); };
}

MakeExchange read_server(OptionReader& options) {
  ServerOptions server;
  server.servers = options.integer("servers", server.servers, kServers);
  return [server](const ExchangeContext& context) { return std::make_unique<ServerExchange>(context, server); };
}

MakeExchange read_async_server(OptionReader& options) {
  AsyncServerOptions server;
  server.staleness = options.integer("staleness", server.staleness, kStaleness);
  return [server](const ExchangeContext& context) { return std::make_unique<AsyncServerExchange>(context, server); };
}

MakeExchange read_quantised(OptionReader&) {
  return [](const ExchangeContext& context) { return std::make_unique<QuantisedExchange>(context); };
}

MakeExchange read_choco(OptionReader& options) {
  ChocoOptions choco;
  choco.graph = read_graph(options);
  choco.every = options.integer("every", choco.every, kIntervals);
  choco.consensus_rate = options.number("consensus_rate", choco.consensus_rate, kConsensusRates);
  return [choco](const ExchangeContext& context) { return std::make_unique<ChocoExchange>(context, choco); };
}

MakeExchange read_push_sum(OptionReader& options) {
  PushSumOptions push;
  push.graph = read_graph(options, "exponential");
  push.every = options.integer("every", push.every, kIntervals);
  return [push](const ExchangeContext& context) { return std::make_unique<PushSumExchange>(context, push); };
}

MakeExchange read_streaming(OptionReader& options) {
  StreamingOptions streaming;
  streaming.every = options.integer("every", streaming.every, kIntervals);
  streaming.fragments = options.integer("fragments", streaming.fragments, kFragments);
  streaming.delay = options.integer("delay", streaming.delay, kSteps);
  streaming.mixing = options.number("mixing", streaming.mixing, kMixing);
  streaming.overlap = options.flag("overlap", false);
  streaming.outer = read_outer_options(options);
  return
      [streaming](const ExchangeContext& context) { return std::make_unique<StreamingExchange>(context, streaming); };
}

struct ExchangeRow {
  const char* name;
  MakeExchange (*read)(OptionReader& options);
  const char* sends;
  bool replicated;     // as Promise
  const char* source;  // paper, and what others have like it; names that --set takes are in spec/algorithm.cpp
  bool codes_parts = false;
  bool deterministic = true;  // as Promise
};
constexpr ExchangeRow kExchanges[] = {
    {"centralized", read_centralized, "gradients, over all ranks, in every step", true, ""},
    {"sharded", read_sharded, "gradients and weights, each rank's part of the optimizer by itself, in every step", true,
     "Rajbhandari et al. 2020 (ZeRO-1)"},
    {"server", read_server, "gradients to one rank or several, and weights back from it, in every step", true,
     "Li et al. 2014 (parameter server), synchronous; BytePS, MXNet's dist_sync, TensorFlow's SyncReplicasOptimizer"},
    {"async_server", read_async_server, "updates to one rank, and weights back from it within a bound of staleness",
     false,
     "Ho et al. 2013 (stale synchronous parallel, SSP), Dean et al. 2012 (Downpour SGD); MXNet's dist_async, bounded",
     false, false},
    {"quantised", read_quantised, "coded gradients by parts, and coded sums of parts, over all ranks, in every step",
     true, "Wang et al. 2023 (ZeRO++), Tang et al. 2021 (1-bit Adam); torchft's allreduce_quantized", true},
    {"local", read_local, "differences of weights, over all ranks, every so many steps", false,
     "Stich 2019 (local SGD), Lin et al. 2020 (post-local SGD), Wang et al. 2020 (SlowMo), Douillard et al. 2023 "
     "(DiLoCo); MLBench's agg_grad=False (every = 1)"},
    {"gossip", read_gossip, "weights, with the neighbours of a graph", false,
     "Lian et al. 2017 (D-PSGD), Assran et al. 2019"},
    {"choco", read_choco, "compressed differences of weights, with the neighbours of a graph", false,
     "Koloskova et al. 2019 (CHOCO-SGD)"},
    {"push_sum", read_push_sum, "weights, one way along the edges of a graph", false,
     "Assran et al. 2019 (stochastic gradient push, SGP)"},
    {"streaming", read_streaming, "differences of weights by fragments, over all ranks, beside further steps", false,
     "Douillard et al. 2025 (Streaming DiLoCo); torchft's DiLoCo", true},
};

}  // namespace

Json effective_as_a_whole(bool one_collective) {
  return {{"overlap", false}, {"buckets", 1}, {"by_layer", false}, {"one_collective", one_collective}};
}

void take_mean_of_own_samples(const compress::StepContext& step, FlatTensors& tensors) {
  if (step.share > 0) tensors.gradients.div_(step.share);
}

bool codes_parts(const std::string& name) { return row_named(kExchanges, "pattern", name).codes_parts; }

bool keeps_replicas(const std::string& name) { return row_named(kExchanges, "pattern", name).replicated; }

Json list_exchanges() {
  Json rows = Json::array();
  for (const ExchangeRow& row : kExchanges) {
    rows.push_back({{"name", row.name},
                    {"sends", row.sends},
                    {"source", row.source},
                    {"replicated", row.replicated},
                    {"deterministic", row.deterministic},
                    {"options", options_asked_by(row.read)}});
  }
  return rows;
}

MakeExchange read_exchange(const std::string& name, OptionReader& options) {
  return row_named(kExchanges, "pattern", name).read(options);
}

}  // namespace mlbench::optim
