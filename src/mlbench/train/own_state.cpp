#include "mlbench/train/own_state.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::train {

namespace {

constexpr int kTag = 1;

// Turns a state into bytes: counts and lengths as uint64, each followed by what it counts. Only peers of the same build
// read these bytes.
class Packer {
 public:
  explicit Packer(const NamedState& state) {
    put(state.tensors.size());
    for (const auto& [name, tensor] : state.tensors) {
      put_text(name);
      put(static_cast<uint64_t>(tensor.dtype));
      put(tensor.shape.size());
      for (const int64_t extent : tensor.shape) put(extent);
      put_text({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
    }
    put(state.scalars.size());
    for (const auto& [name, scalar] : state.scalars) {
      put_text(name);
      put(scalar.index());
      std::visit([this](const auto& value) { put_scalar(value); }, scalar);
    }
  }
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof value == 8);
    const auto* first = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  void put_text(std::string_view text) {
    put(text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  void put_scalar(const std::string& text) { put_text(text); }
  void put_scalar(int64_t value) { put(value); }
  void put_scalar(double value) { put(value); }

  std::vector<uint8_t> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const uint8_t> bytes) : left_(bytes) {}

  NamedState state() {
    NamedState state;
    for (auto tensors = get<uint64_t>(); tensors > 0; --tensors) {
      const std::string name = get_text();
      HostTensor& tensor = state.tensors[name];
      tensor.dtype = static_cast<DType>(get<uint64_t>());
      for (auto extents = get<uint64_t>(); extents > 0; --extents) tensor.shape.push_back(get<int64_t>());
      const auto bytes = std::as_bytes(take(get<uint64_t>()));
      tensor.bytes.assign(bytes.begin(), bytes.end());
    }
    for (auto scalars = get<uint64_t>(); scalars > 0; --scalars) {
      const std::string name = get_text();
      state.scalars[name] = get_scalar();
    }
    MLBENCH_CHECK(left_.empty(), "bytes behind a state");
    return state;
  }

 private:
  std::span<const uint8_t> take(uint64_t count) {
    MLBENCH_CHECK(count <= left_.size(), "a state that was cut off");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string get_text() {
    const auto text = take(get<uint64_t>());
    return {text.begin(), text.end()};
  }
  Scalar get_scalar() {
    switch (get<uint64_t>()) {
      case 0:
        return get<int64_t>();
      case 1:
        return get<double>();
      default:
        return get_text();
    }
  }

  std::span<const uint8_t> left_;
};

void add_under_prefix(const NamedState& own, int rank, NamedState& all) {
  for (const auto& [name, tensor] : own.tensors) all.tensors[own_name(rank, name)] = tensor;
  for (const auto& [name, scalar] : own.scalars) all.scalars[own_name(rank, name)] = scalar;
}

}  // namespace

std::string own_name(int rank, const std::string& name) { return "rank" + std::to_string(rank) + "/" + name; }

void gather_own_state(const NamedState& own, comm::Communicator& comm, NamedState& all) {
  if (comm.rank() == 0) add_under_prefix(own, 0, all);
  if (comm.size() == 1) return;
  std::vector<uint8_t> bytes;
  if (comm.rank() != 0) bytes = Packer(own).take();
  const auto size = static_cast<int64_t>(bytes.size());
  std::vector<int64_t> sizes(static_cast<size_t>(comm.size()));
  comm.all_gather(const_view_of(std::span(&size, 1)), view_of(std::span(sizes)));
  if (comm.rank() != 0) {
    comm.send(const_view_of(std::span<const uint8_t>(bytes)), 0, kTag);
    return;
  }
  for (int rank = 1; rank < comm.size(); ++rank) {
    bytes.resize(static_cast<size_t>(sizes[static_cast<size_t>(rank)]));
    comm.recv(view_of(std::span(bytes)), rank, kTag);
    add_under_prefix(Unpacker(bytes).state(), rank, all);
  }
}

NamedState own_state_of(const NamedState& all, int rank) {
  const std::string prefix = own_name(rank, "");
  NamedState own;
  const auto take = [&](const auto& from, auto& to) {
    for (auto entry = from.lower_bound(prefix); entry != from.end() && entry->first.starts_with(prefix); ++entry) {
      to[entry->first.substr(prefix.size())] = entry->second;
    }
  };
  take(all.tensors, own.tensors);
  take(all.scalars, own.scalars);
  return own;
}

}  // namespace mlbench::train
