#include "mlbench/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/temporary_folders.h"

namespace mlbench::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kFormat = 1;

// ---- scalars as JSON ------------------------------------------------------------------------------------------------

// JSON has no infinity and no NaN: these become {"real": TEXT}.
Json to_json(double value) {
  if (std::isfinite(value)) return value;
  return {{"real", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

Json to_json(const Scalar& scalar) {
  if (const auto* integer = std::get_if<int64_t>(&scalar)) return *integer;
  if (const auto* real = std::get_if<double>(&scalar)) return to_json(*real);
  return std::get<std::string>(scalar);
}

std::optional<Scalar> scalar_from_json(const Json& json) {
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json == Json{{"real", "nan"}}) return std::nan("");
  if (json == Json{{"real", "inf"}}) return HUGE_VAL;
  if (json == Json{{"real", "-inf"}}) return -HUGE_VAL;
  return std::nullopt;
}

// ---- state.json -----------------------------------------------------------------------------------------------------

// The digest covers everything else in the file, so that a flipped bit is found here as it is in the tensors.
std::string digest_of(Json state) {
  state.erase("sha256");
  return sha256_hex(canonical_json(state));
}

[[noreturn]] void damaged(const fs::path& file, const std::string& text) {
  throw UserError(file.string() + ": damaged: " + text);
}

Json read_state_file(const fs::path& file) {
  const Json state =
      try_parse_json(read_file(file, inputs::kCheckpointState), inputs::kCheckpointState).value_or(nullptr);
  if (!state.is_object()) {
    damaged(file, fmt::format("it is not a JSON object, nested at most {} deep", kDeepestNesting));
  }
  const Json format = state.value("format", Json());
  if (format != kFormat) {
    throw UserError(
        fmt::format("{}: checkpoint format {}; this program reads {}", file.string(), format.dump(), kFormat));
  }
  const std::string digest = digest_of(state);
  if (state.value("sha256", Json()) != digest) {
    damaged(file, fmt::format("its SHA-256 is {}, it says {}", digest, state.value("sha256", Json()).dump()));
  }
  return state;
}

// ---- folders --------------------------------------------------------------------------------------------------------

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

fs::path write_checkpoint(const fs::path& folder, int64_t step, const NamedState& state) {
  MLBENCH_CHECK(step >= 0, "a checkpoint before the first step");
  make_folder(folder);
  remove_unfinished(folder);  // there is one writer at a time

  const fs::path target = folder / checkpoint_name(step);
  const fs::path made = folder / fmt::format("{}{}-{}", kUnfinished, checkpoint_name(step), getpid());
  try {
    make_folder(made);
    write_safetensors(made / kTensorFile, state.tensors);
    Json scalars = Json::object();
    for (const auto& [name, scalar] : state.scalars) scalars[name] = to_json(scalar);
    Json json = {{"format", kFormat},
                 {"step", step},
                 {"tensors",
                  {{"file", kTensorFile},
                   {"bytes", fs::file_size(made / kTensorFile)},
                   {"sha256", sha256_hex_of_file(made / kTensorFile)}}},
                 {"scalars", scalars}};
    json["sha256"] = digest_of(json);
    write_json_file(made / kStateFile, json);
    sync_directory(made);
    replace_directory(made, target);
  } catch (...) {
    remove_quietly(made);
    throw;
  }
  sync_directory(folder);
  return target;
}

NamedState read_checkpoint(const fs::path& checkpoint) {
  const fs::path tensor_file = checkpoint / kTensorFile;
  const fs::path state_file = checkpoint / kStateFile;
  for (const fs::path& file : {state_file, tensor_file}) {
    if (!fs::is_regular_file(file)) {
      throw UserError(fmt::format("{} is not a checkpoint: it has no {} (expected {} and {})", checkpoint.string(),
                                  file.filename().string(), kStateFile, kTensorFile));
    }
  }
  const Json json = read_state_file(state_file);
  NamedState state;
  const Json scalars = json.value("scalars", Json());
  if (!scalars.is_object()) damaged(state_file, "it has no scalars");
  for (const auto& [name, value] : scalars.items()) {
    auto scalar = scalar_from_json(value);
    if (!scalar) damaged(state_file, fmt::format("'{}' is {}; expected a number or a text", name, value.dump()));
    state.scalars[name] = std::move(*scalar);
  }
  const Json tensors = json.value("tensors", Json::object());
  const uint64_t size = fs::file_size(tensor_file);
  if (tensors.value("bytes", Json()) != size) {
    damaged(tensor_file, fmt::format("{} bytes; expected {}", size, tensors.value("bytes", Json()).dump()));
  }
  if (const std::string hash = sha256_hex_of_file(tensor_file); tensors.value("sha256", Json()) != hash) {
    damaged(tensor_file, fmt::format("its SHA-256 is {}; expected {}", hash, tensors.value("sha256", Json()).dump()));
  }
  state.tensors = read_safetensors(tensor_file);
  return state;
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& folder) {
  std::vector<CheckpointInfo> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto step = step_of_checkpoint(entry.path().filename().string());
    if (step && fs::is_regular_file(entry.path() / kStateFile) && fs::is_regular_file(entry.path() / kTensorFile)) {
      found.push_back({entry.path(), *step});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

}  // namespace mlbench::checkpoint
