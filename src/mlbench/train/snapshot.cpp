#include "mlbench/train/snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/framework/host_values.h"
#include "mlbench/train/own_state.h"

namespace mlbench::train {

namespace {

using framework::HostValues;

HostTensor host_copy(std::span<const float> flat, const models::FlatRange& range) {
  HostTensor tensor{DType::kFloat32, range.shape, {}};
  const auto bytes = std::as_bytes(flat.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count)));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

void copy_into(const HostTensor& tensor, const std::string& name, const models::FlatRange& range,
               std::span<float> flat) {
  const size_t bytes = static_cast<size_t>(range.count) * sizeof(float);
  if (tensor.dtype != DType::kFloat32 || tensor.shape != range.shape || tensor.bytes.size() != bytes) {
    throw UserError(fmt::format("tensor '{}' is {} of shape [{}]; the model's is float32 of shape [{}]", name,
                                name_of(tensor.dtype), fmt::join(tensor.shape, ", "), fmt::join(range.shape, ", ")));
  }
  std::memcpy(flat.data() + range.offset, tensor.bytes.data(), bytes);
}

std::vector<float> averaged_over_ranks(std::span<const float> own, comm::Communicator& comm) {
  std::vector<float> sum(own.begin(), own.end());
  if (comm.size() == 1 || sum.empty()) return sum;
  comm.all_reduce(view_of(std::span(sum)), comm::ReduceOp::kSum);
  for (float& value : sum) value /= static_cast<float>(comm.size());
  return sum;
}

}  // namespace

AveragedModel average_model(framework::Framework& framework, comm::Communicator& comm, bool replicated) {
  AveragedModel averaged;
  const auto average = [&](const BufferView& flat) {
    return averaged_over_ranks(HostValues(framework, flat).values(), comm);
  };
  if (!replicated) averaged.parameters = average(framework.parameters());
  averaged.buffers = average(framework.buffers());
  return averaged;
}

std::string agreed_weights_sha256(framework::Framework& framework, comm::Communicator& comm, bool replicated) {
  const AveragedModel averaged = average_model(framework, comm, replicated);
  const HostValues own_parameters(framework, framework.parameters());
  const std::string hash = models::weights_sha256(
      framework.layout(), replicated ? std::span<const float>(own_parameters.values()) : averaged.parameters,
      averaged.buffers);
  std::vector<uint8_t> all(hash.size() * static_cast<size_t>(comm.size()));
  const std::span<const uint8_t> own(reinterpret_cast<const uint8_t*>(hash.data()), hash.size());
  comm.all_gather(const_view_of(own), view_of(std::span(all)));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::string other(reinterpret_cast<const char*>(all.data()) + hash.size() * static_cast<size_t>(rank),
                            hash.size());
    MLBENCH_CHECK(other == hash, "rank " + std::to_string(rank) + " ended with other weights than rank " +
                                     std::to_string(comm.rank()) + ": " + other + ", " + hash);
  }
  return hash;
}

void export_model(framework::Framework& framework, const AveragedModel& averaged, NamedState& state, NamedState& own) {
  const HostValues parameters(framework, framework.parameters()), buffers(framework, framework.buffers());
  const bool replicated = averaged.parameters.empty();
  for (const models::FlatRange& range : framework.layout().ranges) {
    const bool differs = !range.trainable || !replicated;
    const std::span<const float> mine = (range.trainable ? parameters : buffers).values();
    const std::span<const float> mean = range.trainable ? averaged.parameters : averaged.buffers;
    state.tensors[range.name] = host_copy(differs ? mean : mine, range);
    if (differs) own.tensors[range.name] = host_copy(mine, range);
  }
}

void import_model(const NamedState& state, int rank, framework::Framework& framework) {
  HostValues parameters(framework, framework.parameters()), buffers(framework, framework.buffers());
  for (const models::FlatRange& range : framework.layout().ranges) {
    std::string name = own_name(rank, range.name);
    if (range.trainable && !state.tensors.contains(name)) name = range.name;
    copy_into(state.tensor(name), name, range, (range.trainable ? parameters : buffers).values());
  }
  parameters.store();
  buffers.store();
}

void import_averaged_model(const std::map<std::string, HostTensor>& tensors, framework::Framework& framework) {
  HostValues parameters(framework, framework.parameters()), buffers(framework, framework.buffers());
  std::vector<std::string> missing, known;
  for (const models::FlatRange& range : framework.layout().ranges) {
    known.push_back(range.name);
    const auto tensor = tensors.find(range.name);
    if (tensor == tensors.end()) {
      missing.push_back(range.name);
    } else {
      copy_into(tensor->second, range.name, range, (range.trainable ? parameters : buffers).values());
    }
  }
  if (missing.empty()) {
    parameters.store();
    buffers.store();
    return;
  }
  std::vector<std::string> other;
  for (const auto& [name, tensor] : tensors) {
    if (std::find(known.begin(), known.end(), name) == known.end()) other.push_back(name);
  }
  const auto some = [](std::vector<std::string> names) {
    constexpr size_t kMost = 8;
    const bool more = names.size() > kMost;
    if (more) names.resize(kMost);
    return fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : "");
  };
  throw UserError(fmt::format("{} of the model's {} tensors are not there: {}; other tensors that are: {}",
                              missing.size(), known.size(), some(missing), other.empty() ? "none" : some(other)));
}

}  // namespace mlbench::train
