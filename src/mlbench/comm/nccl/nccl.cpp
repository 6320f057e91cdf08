#include "mlbench/comm/nccl/nccl.h"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/comm/nccl/gpu.h"
#include "mlbench/comm/nccl/gpu_places.h"

namespace mlbench::comm::nccl_backend {

namespace {

using SteadyClock = std::chrono::steady_clock;
using nccl_backend::check;

// A communicator that does not block answers that an operation is in progress.
void check(ncclResult_t code, const char* function) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  throw CommError(fmt::format("{}: {}", function, ncclGetErrorString(code)));
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return ncclUint8;
    case DType::kInt8:
      return ncclInt8;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
      return ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kAvg:
      return ncclAvg;
    default:
      return ncclSum;
  }
}

class Nccl final : public Transport {
 public:
  // Takes ownership of the communicator, which must not block.
  Nccl(std::shared_ptr<Gpu> gpu, ncclComm_t comm, int rank, int size)
      : gpu_(std::move(gpu)), comm_(comm), rank_(rank), size_(size) {}
  ~Nccl() override {
    if (comm_ == nullptr) return;
    try {
      check(ncclCommFinalize(comm_), "ncclCommFinalize");
      // Destroyed before it is finalised, the communicator would leave an error to the next one of this thread.
      wait([this] { return state() != ncclInProgress; });
      ncclCommDestroy(std::exchange(comm_, nullptr));
    } catch (const CommError&) {  // nobody is left to hear of it
      let_go();
    }
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return "nccl"; }
  std::string collectives_by() const override { return "nccl"; }
  Json versions() const override {
    int code = 0;
    ncclGetVersion(&code);
    return {{"nccl", fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100)}};
  }
  bool supports(const Device& device) const override {
    return device.kind == Device::Kind::kCpu || device.index == gpu_->device;
  }

  void barrier() override {
    int32_t nothing = 0;
    all_reduce({&nothing, 1, DType::kInt32, {}}, ReduceOp::kSum);
  }

  void broadcast(BufferView buffer, int root) override {
    in_place(buffer, [&](void* data, size_t count, ncclDataType_t type) {
      check(ncclBroadcast(data, data, count, type, root, comm_, gpu_->stream), "ncclBroadcast");
    });
  }

  void all_reduce(BufferView buffer, ReduceOp op) override {
    in_place(buffer, [&](void* data, size_t count, ncclDataType_t type) {
      check(ncclAllReduce(data, data, count, type, op_of(op), comm_, gpu_->stream), "ncclAllReduce");
    });
  }

  void reduce(BufferView buffer, ReduceOp op, int root) override {
    in_place(buffer, [&](void* data, size_t count, ncclDataType_t type) {
      check(ncclReduce(data, data, count, type, op_of(op), root, comm_, gpu_->stream), "ncclReduce");
    });
  }

  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    exchange(input, output, [&](const OnGpu& in, const OnGpu& out) {
      check(ncclReduceScatter(in.at(), out.at(), static_cast<size_t>(output.count), type_of(input.dtype), op_of(op),
                              comm_, gpu_->stream),
            "ncclReduceScatter");
    });
  }

  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    const ncclDataType_t type = type_of(output.dtype);
    exchange(input, output, [&](const OnGpu& in, const OnGpu& out) {
      const auto slices = slices_of(counts, output.dtype);
      for (size_t rank = 0; rank < counts.size(); ++rank) {
        if (counts[rank] == 0) continue;
        const bool own = static_cast<int>(rank) == rank_;
        check(ncclBroadcast(own ? in.at() : out.at(slices[rank]), out.at(slices[rank]),
                            static_cast<size_t>(counts[rank]), type, static_cast<int>(rank), comm_, gpu_->stream),
              "ncclBroadcast");
      }
    });
  }

  void gather(ConstBufferView input, BufferView output, int root) override {
    const auto each = static_cast<int64_t>(input.count);
    std::vector<int64_t> out(static_cast<size_t>(size_), 0), in(static_cast<size_t>(size_), 0);
    out[static_cast<size_t>(root)] = each;
    if (rank_ == root) std::fill(in.begin(), in.end(), each);
    all_to_all_v(input, rank_ == root ? output : BufferView{nullptr, 0, input.dtype, {}}, out, in);
  }

  void scatter(ConstBufferView input, BufferView output, int root) override {
    std::vector<int64_t> out(static_cast<size_t>(size_), 0), in(static_cast<size_t>(size_), 0);
    in[static_cast<size_t>(root)] = output.count;
    if (rank_ == root) std::fill(out.begin(), out.end(), output.count);
    all_to_all_v(rank_ == root ? input : ConstBufferView{nullptr, 0, output.dtype, {}}, output, out, in);
  }

  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    const ncclDataType_t type = type_of(input.dtype);
    exchange(input, output, [&](const OnGpu& in, const OnGpu& out) {
      const auto sent = slices_of(send_counts, input.dtype), received = slices_of(recv_counts, input.dtype);
      for (size_t peer = 0; peer < send_counts.size(); ++peer) {
        const auto rank = static_cast<int>(peer);
        const auto to = static_cast<size_t>(send_counts[peer]), from = static_cast<size_t>(recv_counts[peer]);
        if (to > 0) check(ncclSend(in.at(sent[peer]), to, type, rank, comm_, gpu_->stream), "ncclSend");
        if (from > 0) check(ncclRecv(out.at(received[peer]), from, type, rank, comm_, gpu_->stream), "ncclRecv");
      }
    });
  }

  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int) override { return begin(buffer, nullptr, peer); }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int) override { return begin(buffer, buffer.data, peer); }

  std::unique_ptr<Transport> split(int colour, int key) override {
    // NCCL wants colours that are not negative: these are their places among all colours.
    std::vector<int32_t> colours(static_cast<size_t>(size_), colour);
    if (size_ > 1) {
      const std::vector<int64_t> counts(static_cast<size_t>(size_), 1);
      const int32_t own = colour;
      all_gather_v({&own, 1, DType::kInt32}, {colours.data(), size_, DType::kInt32, {}}, counts);
    }
    std::sort(colours.begin(), colours.end());
    const auto place = std::lower_bound(colours.begin(), colours.end(), colour) - colours.begin();
    gpu_->use();
    ncclComm_t part = nullptr;
    check(ncclCommSplit(comm_, static_cast<int>(place), key, &part, nullptr), "ncclCommSplit");
    wait([this] { return state() != ncclInProgress; });
    int rank = 0, size = 0;
    check(ncclCommUserRank(part, &rank), "ncclCommUserRank");
    check(ncclCommCount(part, &size), "ncclCommCount");
    return std::make_unique<Nccl>(gpu_, part, rank, size);
  }

  void let_go() noexcept override {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  // A send or a receive, which is begun together with others.
  struct Message {
    Message(Gpu& gpu, const ConstBufferView& buffer, void* destination, int other)
        : view(buffer), back(destination), data(gpu, buffer, destination == nullptr), peer(other) {}
    ConstBufferView view;
    void* back;  // null: it is a send
    OnGpu data;
    int peer;
  };

  class MessageWork final : public Work {
   public:
    MessageWork(Nccl& nccl, std::shared_ptr<Message> message) : nccl_(nccl), message_(std::move(message)) {}
    ~MessageWork() override { await_silently(); }
    bool done() override {
      nccl_.begin_messages();
      return cudaStreamQuery(nccl_.gpu_->stream) == cudaSuccess;
    }
    void synchronize() override {
      if (message_ == nullptr) return;
      const auto message = std::exchange(message_, nullptr);
      nccl_.begin_messages();
      nccl_.finish();
    }

   private:
    Nccl& nccl_;
    std::shared_ptr<Message> message_;
  };

  std::unique_ptr<Work> begin(const ConstBufferView& buffer, void* destination, int peer) {
    gpu_->use();
    messages_.push_back(std::make_shared<Message>(*gpu_, buffer, destination, peer));
    return std::make_unique<MessageWork>(*this, messages_.back());
  }

  void begin_messages() {
    if (messages_.empty()) return;
    const std::vector<std::shared_ptr<Message>> messages = std::exchange(messages_, {});
    in_group([&] {
      for (const auto& message : messages) {
        const auto count = static_cast<size_t>(message->view.count);
        const ncclDataType_t type = type_of(message->view.dtype);
        if (message->back == nullptr) {
          check(ncclSend(message->data.at(), count, type, message->peer, comm_, gpu_->stream), "ncclSend");
        } else {
          check(ncclRecv(message->data.at(), count, type, message->peer, comm_, gpu_->stream), "ncclRecv");
        }
      }
    });
    for (const auto& message : messages) {
      if (message->back != nullptr) message->data.copy_back(message->back);
    }
  }

  // Calls call(data on the GPU, count, type), and waits for the operation.
  template <typename Call>
  void in_place(const BufferView& buffer, Call call) {
    begin_operation();
    const OnGpu data(*gpu_, buffer, true);
    in_group([&] { call(data.at(), static_cast<size_t>(buffer.count), type_of(buffer.dtype)); });
    data.copy_back(buffer.data);
    finish();
  }

  template <typename Call>
  void exchange(const ConstBufferView& input, const BufferView& output, Call call) {
    begin_operation();
    const OnGpu in(*gpu_, input, true), out(*gpu_, output, false);
    in_group([&] { call(in, out); });
    out.copy_back(output.data);
    finish();
  }

  void begin_operation() {
    gpu_->use();
    begin_messages();
  }

  // NCCL gets the calls within as one, and has enqueued them when this returns.
  void in_group(const std::function<void()>& calls) {
    check(ncclGroupStart(), "ncclGroupStart");
    try {
      calls();
    } catch (const CommError&) {
      ncclGroupEnd();
      throw;
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
    wait([this] { return state() != ncclInProgress; });
  }

  void finish() {
    wait([this] { return state() != ncclInProgress && cudaStreamQuery(gpu_->stream) == cudaSuccess; });
    check(cudaGetLastError(), "CUDA");
  }

  ncclResult_t state() {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    check(state, "NCCL");
    return state;
  }

  void wait(const std::function<bool()>& ended) {
    const auto start = SteadyClock::now();
    while (!ended()) {
      const auto waited = SteadyClock::now() - start;
      if (waited > gpu_->timeout) {
        let_go();
        throw CommError(fmt::format("waited {} ms for the other ranks", gpu_->timeout.count()));
      }
      if (waited > std::chrono::milliseconds(1)) std::this_thread::yield();
    }
  }

  static std::vector<size_t> slices_of(std::span<const int64_t> counts, DType dtype) {
    std::vector<size_t> firsts{0};
    for (const int64_t count : counts) firsts.push_back(firsts.back() + static_cast<size_t>(count) * size_of(dtype));
    return firsts;
  }

  std::shared_ptr<Gpu> gpu_;
  ncclComm_t comm_;
  int rank_;
  int size_;
  std::vector<std::shared_ptr<Message>> messages_;  // not begun yet
};

ncclUniqueId id_of(const std::string& hex) {
  ncclUniqueId id{};
  const bool digits = std::ranges::all_of(hex, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (hex.size() != 2 * sizeof id.internal || !digits) {
    throw CommError("rank 0 announces no NCCL id: another version of the program?");
  }
  for (size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

std::string told_by(const CommOptions& options, int rank, const std::string& key) {
  try {
    return options.store->get(key, options.timeout);
  } catch (const CommError& error) {
    throw CommError(fmt::format("rank {} did not come ({})", rank, error.what()));
  }
}

// Checks before NCCL does: for two ranks on one GPU NCCL has an error that names neither.
void check_places(const CommOptions& options, int device) {
  char bus[32] = "";
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
  options.store->set(fmt::format("nccl/gpu/{}", options.rank), host_name() + "\n" + bus);
  std::vector<GpuPlace> places;
  for (int rank = 0; rank < options.size; ++rank) {
    const std::string text = told_by(options, rank, fmt::format("nccl/gpu/{}", rank));
    const size_t end = std::min(text.find('\n'), text.size());
    places.push_back({text.substr(0, end), text.substr(std::min(end + 1, text.size()))});
  }
  if (const std::string why = why_refused(places); !why.empty()) throw UserError("backend nccl: " + why);
}

}  // namespace

Availability available() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) return {false, fmt::format("no NVIDIA GPU ({})", cudaGetErrorString(code))};
  if (count == 0) return {false, "no NVIDIA GPU"};
  return {true, ""};
}

std::unique_ptr<Transport> make(const CommOptions& options) {
  if (const Availability here = available(); !here.available) throw UserError("backend nccl: " + here.reason);
  auto gpu = std::make_shared<Gpu>(gpu_of(options), options.timeout);
  ncclUniqueId id{};
  if (options.size > 1) check_places(options, gpu->device);
  if (options.rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  if (options.size > 1) {
    if (options.rank == 0) options.store->set("nccl/id", hex_of(std::string_view(id.internal, sizeof id.internal)));
    id = id_of(told_by(options, 0, "nccl/id"));
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  check(ncclCommInitRankConfig(&comm, options.size, id, options.rank, &config), "ncclCommInitRankConfig");
  const auto deadline = SteadyClock::now() + options.timeout;
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
    check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    check(state, "ncclCommInitRankConfig");
    if (SteadyClock::now() > deadline) {
      ncclCommAbort(comm);
      throw CommError(fmt::format("connecting with NCCL: waited {} ms for the other ranks", options.timeout.count()));
    }
    std::this_thread::yield();
  }
  return std::make_unique<Nccl>(std::move(gpu), comm, options.rank, options.size);
}

}  // namespace mlbench::comm::nccl_backend
