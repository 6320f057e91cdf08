#pragma once

// A checkpoint is a folder step-NNNNNNNNN/ with model.safetensors (every tensor; other tools open it) and state.json
// (scalars and where it belongs). Written under a temporary name, fsynced, renamed: a reader sees all of it or nothing.
// safetensors: 8-byte little-endian header length, JSON header {name: {dtype, shape, data_offsets}}, data.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "mlbench/base/named_state.h"

namespace mlbench::checkpoint {

struct CheckpointInfo {
  std::filesystem::path path;
  int64_t step = 0;
};

// IoError when the disk refuses (nothing is left behind). Returns the folder.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, int64_t step, const NamedState& state);
// UserError when it is damaged: what was given, what was expected.
NamedState read_checkpoint(const std::filesystem::path& checkpoint);
// Complete checkpoints, by step; temporary ones are ignored.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder);

// The two halves, for tools: a safetensors file alone.
void write_safetensors(const std::filesystem::path& file, const std::map<std::string, HostTensor>& tensors);
std::map<std::string, HostTensor> read_safetensors(const std::filesystem::path& file);

}  // namespace mlbench::checkpoint
