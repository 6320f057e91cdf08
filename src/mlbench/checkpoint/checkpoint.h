#pragma once

// A checkpoint is a folder step-NNNNNNNNN/ with model.safetensors (every tensor; other tools open it) and state.json
// (scalars and where it belongs). Written under a temporary name, fsynced, renamed: a reader sees all of it or nothing.
// safetensors: 8-byte little-endian header length, JSON header {name: {dtype, shape, data_offsets}}, data.
// state.json holds the SHA-256 of the tensor file and of itself, so that a damaged checkpoint is never resumed from.
// The process must ignore SIGXFSZ (track/recorder.h does) for a file-size limit to be an IoError.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/named_state.h"

namespace mlbench::checkpoint {

struct CheckpointInfo {
  std::filesystem::path path;
  int64_t step = 0;
};

// IoError when the disk refuses (nothing is left behind). Returns the folder. Replaces a checkpoint of the same step.
// One writer per folder at a time; temporary folders that a killed one left are removed.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, int64_t step, const NamedState& state);
// UserError when it is damaged: what was given, what was expected.
NamedState read_checkpoint(const std::filesystem::path& checkpoint);
// Complete checkpoints, by step; temporary ones are ignored.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder);

// The two halves, for tools: a safetensors file alone.
void write_safetensors(const std::filesystem::path& file, const std::map<std::string, HostTensor>& tensors);
std::map<std::string, HostTensor> read_safetensors(const std::filesystem::path& file);

}  // namespace mlbench::checkpoint
