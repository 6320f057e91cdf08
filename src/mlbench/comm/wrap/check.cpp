#include "mlbench/comm/wrap/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/half.h"
#include "mlbench/comm/wrapper.h"

namespace mlbench::comm {

namespace {

enum class Collective : int64_t {
  kBarrier,
  kBroadcast,
  kAllReduce,
  kAllGatherV,
  kReduceScatter,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kAllToAllV,
  kAllocate,
  kSplit
};
constexpr std::array kCollectiveNames = {"barrier",        "broadcast",    "all_reduce", "all_gather",
                                         "reduce_scatter", "reduce",       "gather",     "scatter",
                                         "all_to_all",     "all_to_all_v", "allocate",   "split"};

template <typename T, typename Value>
bool any_nan(const ConstBufferView& buffer, Value value) {
  const auto* values = static_cast<const T*>(buffer.data);
  bool found = false;  // a flag instead of a return, so that the loop is vectorised
  for (int64_t i = 0; i < buffer.count; ++i) found |= std::isnan(value(values[i]));
  return found;
}

bool holds_nan(const ConstBufferView& buffer) {
  switch (buffer.dtype) {
    case DType::kFloat16:
      return any_nan<uint16_t>(buffer, float16_to_float);
    case DType::kBFloat16:
      return any_nan<uint16_t>(buffer, bfloat16_to_float);
    case DType::kFloat32:
      return any_nan<float>(buffer, [](float value) { return value; });
    case DType::kFloat64:
      return any_nan<double>(buffer, [](double value) { return value; });
    default:
      return false;
  }
}

constexpr const char* kOps[] = {"sum", "prod", "min", "max", "avg"};
constexpr int64_t kNone = -1;

// What a rank is about to do. It is sent as 7 + 2 k whole numbers.
struct Descriptor {
  int64_t number = 0;
  Collective operation = Collective::kBarrier;
  int64_t dtype = kNone;
  int64_t count = kNone;
  int64_t root = kNone;
  int64_t op = kNone;
  int64_t nan = 0;
  std::vector<int64_t> out = {};  // counts to each rank, or of each rank; empty: the operation has no counts
  std::vector<int64_t> in = {};   // counts from each rank

  static size_t words(size_t ranks) { return 7 + 2 * ranks; }

  std::vector<int64_t> encode(size_t ranks) const {
    std::vector<int64_t> all = {number, static_cast<int64_t>(operation), dtype, count, root, op, nan};
    for (const auto* counts : {&out, &in}) {
      all.insert(all.end(), counts->begin(), counts->end());
      all.insert(all.end(), ranks - counts->size(), kNone);
    }
    return all;
  }
  static Descriptor decode(std::span<const int64_t> all, size_t ranks) {
    Descriptor one{all[0], static_cast<Collective>(all[1]), all[2], all[3], all[4], all[5], all[6], {}, {}};
    one.out = counts_of(all.subspan(7, ranks));
    one.in = counts_of(all.subspan(7 + ranks, ranks));
    return one;
  }

  std::string text() const {
    std::string text = kCollectiveNames[static_cast<size_t>(operation)];
    if (operation == Collective::kAllocate) text += fmt::format(" of {} bytes", count);
    if (dtype != kNone) text += fmt::format(" of {}{}", amount(), name_of(static_cast<DType>(dtype)));
    if (op != kNone) text += fmt::format(", {}", kOps[static_cast<size_t>(op)]);
    if (root != kNone) {
      const bool from = operation == Collective::kBroadcast || operation == Collective::kScatter;
      text += fmt::format(" {} root {}", from ? "from" : "to", root);
    }
    if (nan != 0) text += ", with NaN";
    return text;
  }

 private:
  static std::vector<int64_t> counts_of(std::span<const int64_t> all) {
    if (all[0] == kNone) return {};
    return {all.begin(), all.end()};
  }
  std::string amount() const {
    if (operation == Collective::kAllToAllV) return "";  // each rank has its own counts
    if (operation == Collective::kAllGatherV) return fmt::format("{} ", fmt::join(out, " + "));
    return fmt::format("{} ", count);
  }
};

// How the ranks disagree; "" where they agree.
std::string disagreement(const std::vector<Descriptor>& ranks) {
  const int64_t number = ranks[0].number;
  const bool in_step = std::all_of(ranks.begin(), ranks.end(), [&](const auto& one) { return one.number == number; });
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;  // what they do, and which ranks do it
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string what = ranks[rank].text();
    if (!in_step) what = fmt::format("collective {}, {}", ranks[rank].number, what);
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == what; });
    if (same == groups.end()) {
      groups.push_back({what, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  if (groups.size() > 1) {
    std::string text = in_step ? fmt::format("collective {} differs", number) : "the ranks are out of step";
    const char* separator = ": ";
    for (const auto& [what, who] : groups) {
      text += fmt::format("{}rank{} {}: {}", separator, who.size() == 1 ? "" : "s", fmt::join(who, ", "), what);
      separator = "; ";
    }
    return text;
  }
  if (ranks[0].operation != Collective::kAllToAllV) return "";
  for (size_t from = 0; from < ranks.size(); ++from) {
    for (size_t to = 0; to < ranks.size(); ++to) {
      if (ranks[from].out[to] == ranks[to].in[from]) continue;
      return fmt::format("collective {} differs: {}: rank {} sends {} elements to rank {}, which expects {}", number,
                         groups[0].first, from, ranks[from].out[to], to, ranks[to].in[from]);
    }
  }
  return "";
}

std::vector<int64_t> copy_of_counts(std::span<const int64_t> counts) { return {counts.begin(), counts.end()}; }

class Check final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  std::string description() const override { return fmt::format("check({})", inner().description()); }
  // The host looks for NaN.
  bool supports(const Device& device) const override { return Transport::supports(device) && inner().supports(device); }

  void barrier() override {
    agree({.operation = Collective::kBarrier});
    inner().barrier();
  }
  void broadcast(BufferView buffer, int root) override {
    agree(rooted(Collective::kBroadcast, buffer, root));
    inner().broadcast(buffer, root);
  }
  void all_reduce(BufferView buffer, ReduceOp op) override {
    agree(reduction(Collective::kAllReduce, buffer, op));
    inner().all_reduce(buffer, op);
  }
  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op) override {
    agree(reduction(Collective::kAllReduce, buffer, op));
    return inner().all_reduce_async(buffer, op);
  }
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    Descriptor own = with_input(Collective::kAllGatherV, input);
    own.count = output.count;
    own.out = copy_of_counts(counts);
    agree(std::move(own));
    inner().all_gather_v(input, output, counts);
  }
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    agree(reduction(Collective::kReduceScatter, input, op));
    inner().reduce_scatter(input, output, op);
  }
  void reduce(BufferView buffer, ReduceOp op, int root) override {
    Descriptor own = reduction(Collective::kReduce, buffer, op);
    own.root = root;
    agree(std::move(own));
    inner().reduce(buffer, op, root);
  }
  void gather(ConstBufferView input, BufferView output, int root) override {
    Descriptor own = with_input(Collective::kGather, input);
    own.root = root;
    agree(std::move(own));
    inner().gather(input, output, root);
  }
  void scatter(ConstBufferView input, BufferView output, int root) override {
    agree(rooted(Collective::kScatter, output, root));
    inner().scatter(input, output, root);
  }
  void all_to_all(ConstBufferView input, BufferView output) override {
    agree(with_input(Collective::kAllToAll, input));
    inner().all_to_all(input, output);
  }
  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    Descriptor own = with_input(Collective::kAllToAllV, input);
    own.count = kNone;
    own.out = copy_of_counts(send_counts);
    own.in = copy_of_counts(recv_counts);
    agree(std::move(own));
    inner().all_to_all_v(input, output, send_counts, recv_counts);
  }
  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    agree({.operation = Collective::kAllocate, .count = static_cast<int64_t>(bytes)});
    return inner().allocate(bytes);
  }
  std::unique_ptr<Transport> split(int colour, int key) override {
    agree({.operation = Collective::kSplit});
    return std::make_unique<Check>(inner().split(colour, key));
  }

 private:
  static Descriptor with_input(Collective operation, const ConstBufferView& input) {
    return {.operation = operation,
            .dtype = static_cast<int64_t>(input.dtype),
            .count = input.count,
            .nan = holds_nan(input) ? 1 : 0};
  }
  static Descriptor reduction(Collective operation, const ConstBufferView& input, ReduceOp op) {
    Descriptor own = with_input(operation, input);
    own.op = static_cast<int64_t>(op);
    return own;
  }
  // Describes an operation in which the root alone has the input.
  static Descriptor rooted(Collective operation, const ConstBufferView& buffer, int root) {
    return {.operation = operation, .dtype = static_cast<int64_t>(buffer.dtype), .count = buffer.count, .root = root};
  }

  void agree(Descriptor own) {
    own.number = ++number_;
    if (size() == 1) return;
    const auto ranks = static_cast<size_t>(size());
    const size_t words = Descriptor::words(ranks);
    const std::vector<int64_t> mine = own.encode(ranks);
    std::vector<int64_t> all(ranks * words);
    const std::vector<int64_t> counts(ranks, static_cast<int64_t>(words));
    inner().all_gather_v(const_view_of(std::span(mine)), view_of(std::span(all)), counts);
    std::vector<Descriptor> descriptors;
    for (size_t rank = 0; rank < ranks; ++rank) {
      descriptors.push_back(Descriptor::decode(std::span(all).subspan(rank * words, words), ranks));
    }
    if (const std::string text = disagreement(descriptors); !text.empty()) throw CommError(text);
  }

  int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_check(std::unique_ptr<Transport> inner) {
  return std::make_unique<Check>(std::move(inner));
}

}  // namespace mlbench::comm
