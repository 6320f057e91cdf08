#pragma once

// A checkpoint is a folder step-NNNNNNNNN/ with model.safetensors (every tensor; other tools open it) and state.json
// (the scalars, and to what the checkpoint belongs). A checkpoint is written under a temporary name, synced and
// renamed: a reader sees all of it or nothing. A safetensors file is an 8-byte little-endian header length, a JSON
// header {name: {dtype, shape, data_offsets}}, and the data. state.json has the SHA-256 of the tensor file and of
// itself, so that no run resumes from a damaged checkpoint. Precondition: the process ignores SIGXFSZ (track/recorder.h
// arranges that), so that a file-size limit is an IoError.

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

// Writes a checkpoint and returns its folder. Replaces a checkpoint of the same step, and removes temporary folders
// that a killed writer left. Throws IoError when the disk refuses; nothing is left behind then. One writer at a time
// may use a folder.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, int64_t step, const NamedState& state);
// Throws UserError, saying what was given and what was expected, when the checkpoint is damaged.
NamedState read_checkpoint(const std::filesystem::path& checkpoint);
// The complete checkpoints, by step; temporary folders are ignored.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder);

// For tools: write and read a safetensors file alone.
void write_safetensors(const std::filesystem::path& file, const std::map<std::string, HostTensor>& tensors);
std::map<std::string, HostTensor> read_safetensors(const std::filesystem::path& file);

}  // namespace mlbench::checkpoint
