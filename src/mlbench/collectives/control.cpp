#include "mlbench/collectives/control.h"

#include "mlbench/base/environment.h"

namespace mlbench::collectives {

namespace {
constexpr int kToldTag = 1;
constexpr size_t kLeastStage = 4096;
}  // namespace

// What only two ranks tell each other must fit from the start: all ranks together allocate later stages.
Control::Control(comm::Communicator& comm, Memory& memory) : comm_(comm), memory_(memory) { staged(kLeastStage); }

std::byte* Control::staged(size_t bytes) {
  if (bytes > stage_bytes_) {
    stage_bytes_ = bytes;
    stage_ = memory_.allocate(stage_bytes_);
  }
  return stage_.get();
}

bool Control::decided_by_rank_0(bool mine) {
  auto value = static_cast<uint8_t>(mine ? 1 : 0);
  std::byte* stage = staged(1);
  memory_.write(stage, reinterpret_cast<const std::byte*>(&value), 1);
  comm_.broadcast({stage, 1, DType::kUInt8, memory_.stream()}, 0);
  memory_.synchronize();
  memory_.read(reinterpret_cast<std::byte*>(&value), stage, 1);
  return value == 1;
}

std::vector<std::vector<double>> Control::gathered(std::span<const double> values) {
  const auto ranks = static_cast<size_t>(comm_.size());
  const size_t bytes = values.size_bytes();
  const auto count = static_cast<int64_t>(values.size());
  std::byte* mine = staged((1 + ranks) * bytes);
  std::byte* all = mine + bytes;
  memory_.write(mine, reinterpret_cast<const std::byte*>(values.data()), bytes);
  comm_.gather({mine, count, DType::kFloat64, memory_.stream()},
               {all, count * comm_.size(), DType::kFloat64, memory_.stream()}, 0);
  memory_.synchronize();
  if (comm_.rank() != 0) return {};
  std::vector<std::vector<double>> found(ranks, std::vector<double>(values.size()));
  for (size_t rank = 0; rank < ranks; ++rank) {
    memory_.read(reinterpret_cast<std::byte*>(found[rank].data()), all + rank * bytes, bytes);
  }
  return found;
}

std::vector<std::string> Control::gathered_hosts() {
  constexpr size_t kBytes = kMostHostName + 1;
  constexpr auto kCount = static_cast<int64_t>(kBytes);
  const auto ranks = static_cast<size_t>(comm_.size());
  std::string name = host_name().substr(0, kMostHostName);
  name.resize(kBytes, '\0');
  std::byte* mine = staged((1 + ranks) * kBytes);
  std::byte* all = mine + kBytes;
  memory_.write(mine, reinterpret_cast<const std::byte*>(name.data()), kBytes);
  comm_.gather({mine, kCount, DType::kUInt8, memory_.stream()},
               {all, kCount * comm_.size(), DType::kUInt8, memory_.stream()}, 0);
  memory_.synchronize();
  if (comm_.rank() != 0) return {};
  std::vector<std::string> hosts;
  for (size_t rank = 0; rank < ranks; ++rank) {
    memory_.read(reinterpret_cast<std::byte*>(name.data()), all + rank * kBytes, kBytes);
    hosts.emplace_back(name.c_str());
  }
  return hosts;
}

int64_t Control::told(int64_t mine, int sender, int receiver) {
  std::byte* stage = staged(sizeof mine);
  const BufferView view{stage, 1, DType::kInt64, memory_.stream()};
  memory_.write(stage, reinterpret_cast<const std::byte*>(&mine), sizeof mine);
  if (comm_.rank() == sender) comm_.send(view, receiver, kToldTag);
  if (comm_.rank() == receiver) comm_.recv(view, sender, kToldTag);
  memory_.synchronize();
  memory_.read(reinterpret_cast<std::byte*>(&mine), stage, sizeof mine);
  return mine;
}

}  // namespace mlbench::collectives
