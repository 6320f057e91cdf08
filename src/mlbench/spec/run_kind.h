#pragma once

// What a run is made of, and what follows from that; the one place where kinds of runs differ.

#include <cstdint>
#include <string_view>

namespace mlbench::spec {

enum class RunKind : uint8_t {
  kTrain,        // a task of ours, by our worker
  kCommand,      // any program, a custom run
  kCollectives,  // a benchmark of communication (collectives.h), by our worker
};

struct RunKindRow {
  RunKind kind;
  std::string_view name;
  // Ranks are our worker: they join the rendezvous, send heartbeats and write spools. Others write tracker lines, and
  // only how they end can be seen.
  bool worker;
  // It has steps with an exchange each, evaluations, a goal, data and a model.
  bool trains;
};

const RunKindRow& row_of(RunKind kind);

}  // namespace mlbench::spec
