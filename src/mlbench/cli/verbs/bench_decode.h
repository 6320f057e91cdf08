#pragma once

namespace CLI {
class App;
}

namespace mlbench::cli {

struct Program;

// Adds `decode` to the group `bench`: images per second of decoding alone, as a training's loader does it.
void add_bench_decode(CLI::App& group, Program& program);

}  // namespace mlbench::cli
