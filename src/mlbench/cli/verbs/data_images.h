#pragma once

// `data shard` and `data index`: folders of images to shards, and what containers of images hold.

namespace CLI {
class App;
}

namespace mlbench::cli {

struct Program;

void add_data_images(CLI::App& group, Program& program);

}  // namespace mlbench::cli
