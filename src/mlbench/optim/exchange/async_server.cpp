#include "mlbench/optim/exchange/async_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/exchange/neighbour_exchange.h"

namespace mlbench::optim {

namespace {

constexpr int kUpdateTag = 13, kAnswerTag = 14, kProgressTag = 15;

// What an answer has of the updates: of the first `complete` steps those of all ranks, and the first `own` of the rank
// that it goes to. They are more than the ones that it answers where it was kept back.
struct Progress {
  int64_t complete = 0, own = 0;
};
static_assert(sizeof(Progress) == 2 * sizeof(int64_t));

BufferView view_of_progress(Progress& progress) { return {&progress, 2, DType::kInt64, {}}; }

}  // namespace

class AsyncServerExchange::Side {
 public:
  virtual ~Side() = default;
  // A step of all ranks begins.
  virtual void begin(const at::Tensor& view) = 0;
  // Does what can be done without waiting.
  virtual void poll() = 0;
  // Hands over the update of this rank's next step. `view` becomes that of the step behind it, with all updates of the
  // first `needed` steps.
  virtual void push(const at::Tensor& update, at::Tensor& view, int64_t needed) = 0;
  // Returns when all updates of `steps` steps of all ranks are in the view, which is the same everywhere.
  virtual void settle(at::Tensor& view, int64_t steps) = 0;
  // Ends what is under way.
  virtual void drop() noexcept = 0;
  // The number of first steps of which the view has the updates of all ranks.
  virtual int64_t complete() const = 0;
};

namespace {

using Side = AsyncServerExchange::Side;

class ServingSide final : public Side {
 public:
  ServingSide(comm::Communicator& comm, int64_t bound) : comm_(comm), bound_(bound) {
    for (int rank = 1; rank < comm.size(); ++rank) workers_.emplace_back().rank = rank;
  }

  void begin(const at::Tensor& view) override {
    if (!weights_.defined()) weights_ = view.clone();
    for (Worker& worker : workers_) {
      Message& update = worker.awaited.emplace_back();
      update.values = at::empty_like(weights_);
      update.work = comm_.recv_async(view_of(update.values), worker.rank, kUpdateTag);
    }
    poll();
  }

  void poll() override {
    for (Worker& worker : workers_) {
      while (!worker.awaited.empty() && worker.awaited.front().work->done()) apply(worker);
    }
    for (Worker& worker : workers_) {
      while (worker.answers < worker.updates && worker.answers < in_weights() + bound_) answer(worker);
    }
    while (!sent_.empty() && sent_.front().work->done() && sent_.front().progress_work->done()) finish_first_sent();
  }

  void push(const at::Tensor& update, at::Tensor& view, int64_t needed) override {
    weights_.add_(update);
    ++own_updates_;
    poll();
    wait_for(needed);
    view.copy_(weights_);
    complete_ = in_weights();
  }

  void settle(at::Tensor& view, int64_t steps) override {
    wait_for(steps);
    while (!sent_.empty()) finish_first_sent();
    view.copy_(weights_);
    std::vector<std::unique_ptr<comm::Work>> sent;
    for (Worker& worker : workers_) sent.push_back(comm_.send_async(view_of(weights_), worker.rank, kAnswerTag));
    for (const auto& work : sent) work->synchronize();
    weights_ = at::Tensor();  // until the next step the view may be changed by others
    complete_ = steps;
  }

  void drop() noexcept override {
    for (Worker& worker : workers_) worker.awaited.clear();
    sent_.clear();
  }

  int64_t complete() const override { return complete_; }

 private:
  struct Message {
    at::Tensor values;
    Progress progress;  // of an answer
    std::unique_ptr<comm::Work> work, progress_work;
  };
  struct Worker {
    int rank = 0;
    std::deque<Message> awaited;  // its next updates
    int64_t updates = 0;          // of it that are in the weights
    int64_t answers = 0;          // to it
  };

  Worker& slowest() {
    return *std::min_element(workers_.begin(), workers_.end(),
                             [](const Worker& a, const Worker& b) { return a.updates < b.updates; });
  }
  // The number of first steps of which all ranks' updates are in the weights.
  int64_t in_weights() { return std::min(own_updates_, slowest().updates); }

  // Returns when the weights have all updates of the first `steps` steps, and no worker lacks an answer that is due.
  // The slowest worker then has all answers that its next step takes: it can make that step.
  void wait_for(int64_t steps) {
    while (in_weights() < steps) {
      apply(slowest());
      poll();
    }
  }

  // Adds the next update, for which it waits.
  void apply(Worker& worker) {
    Message& update = worker.awaited.front();
    update.work->synchronize();
    weights_.add_(update.values);
    ++worker.updates;
    worker.awaited.pop_front();
  }

  void answer(Worker& worker) {
    Message& message = sent_.emplace_back();
    message.values = weights_.clone();
    message.progress = {in_weights(), worker.updates};
    message.work = comm_.send_async(view_of(message.values), worker.rank, kAnswerTag);
    message.progress_work = comm_.send_async(view_of_progress(message.progress), worker.rank, kProgressTag);
    ++worker.answers;
  }

  void finish_first_sent() {
    sent_.front().work->synchronize();
    sent_.front().progress_work->synchronize();
    sent_.pop_front();
  }

  comm::Communicator& comm_;
  const int64_t bound_;
  std::deque<Worker> workers_;  // rank 1, 2, ...
  std::deque<Message> sent_;
  at::Tensor weights_;  // undefined before a first step and behind settle()
  int64_t own_updates_ = 0;
  int64_t complete_ = 0;
};

class AskingSide final : public Side {
 public:
  explicit AskingSide(comm::Communicator& comm) : comm_(comm) {}

  void begin(const at::Tensor& /*view*/) override { poll(); }

  void poll() override {
    if (!under_way_.empty()) (void)under_way_.front().answered();  // some back ends move messages within calls alone
  }

  void push(const at::Tensor& update, at::Tensor& view, int64_t needed) override {
    Exchanged& one = under_way_.emplace_back();
    one.update = update;
    one.answer = at::empty_like(update);
    one.answer_work = comm_.recv_async(view_of(one.answer), 0, kAnswerTag);
    one.progress_work = comm_.recv_async(view_of_progress(one.progress), 0, kProgressTag);
    one.update_work = comm_.send_async(view_of(one.update), 0, kUpdateTag);
    at::Tensor answer;
    while (!under_way_.empty() && (complete_ < needed || under_way_.front().answered())) answer = take();
    if (!answer.defined()) {
      view.add_(update);
      return;
    }
    view.copy_(answer);
    for (auto i = static_cast<size_t>(in_answer_ - answered_); i < under_way_.size(); ++i) {
      view.add_(under_way_[i].update);
    }
  }

  void settle(at::Tensor& view, int64_t steps) override {
    while (!under_way_.empty()) take();
    comm_.recv(view_of(view), 0, kAnswerTag);
    complete_ = steps;
  }

  void drop() noexcept override { under_way_.clear(); }
  int64_t complete() const override { return complete_; }

 private:
  struct Exchanged {
    bool answered() const { return answer_work->done() && progress_work->done(); }

    at::Tensor update, answer;
    Progress progress;
    std::unique_ptr<comm::Work> answer_work, progress_work, update_work;
  };

  // Waits for the next answer, and returns it.
  at::Tensor take() {
    Exchanged& first = under_way_.front();
    first.answer_work->synchronize();
    first.progress_work->synchronize();
    first.update_work->synchronize();  // over, as it was answered
    complete_ = first.progress.complete;
    in_answer_ = first.progress.own;
    ++answered_;
    at::Tensor answer = std::move(first.answer);
    under_way_.pop_front();
    return answer;
  }

  comm::Communicator& comm_;
  std::deque<Exchanged> under_way_;  // own updates without an answer
  int64_t answered_ = 0;             // own updates with one
  int64_t in_answer_ = 0;            // own updates that the newest answer has: as many as are answered, or more
  int64_t complete_ = 0;
};

}  // namespace

AsyncServerExchange::AsyncServerExchange(const ExchangeContext& context, const AsyncServerOptions& options)
    : comm_(context.comm),
      bound_(options.staleness),
      parameter_bytes_(static_cast<uint64_t>(context.layout.parameter_count()) * sizeof(float)) {
  require_no_coder(context, "async_server");
  require_host_memory(context, "async_server");
  if (comm_.size() == 1) return;
  histogram_.resize(static_cast<size_t>(bound_) + 1);
  if (comm_.rank() == 0) {
    side_ = std::make_unique<ServingSide>(comm_, bound_);
  } else {
    side_ = std::make_unique<AskingSide>(comm_);
  }
}

AsyncServerExchange::~AsyncServerExchange() = default;

uint64_t AsyncServerExchange::bytes_per_step() const {
  if (side_ == nullptr) return 0;
  const uint64_t answer_bytes = parameter_bytes_ + sizeof(Progress);
  return comm_.rank() == 0 ? static_cast<uint64_t>(comm_.size() - 1) * answer_bytes : parameter_bytes_;
}

Promise AsyncServerExchange::promise() const {
  const bool alone = side_ == nullptr;
  return {.exact = alone, .replicated = alone, .bytes_per_step = bytes_per_step(), .deterministic = alone};
}

void AsyncServerExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
  if (side_ == nullptr) return;
  const int64_t staleness = steps_ - side_->complete();
  MLBENCH_CHECK(staleness >= 0 && staleness <= bound_, fmt::format("a view of staleness {}", staleness));
  ++histogram_[static_cast<size_t>(staleness)];
  before_ = tensors.parameters.clone();
  side_->begin(before_);
}

void AsyncServerExchange::ready(int64_t /*first*/, int64_t /*count*/) {
  if (side_ == nullptr || error_ != nullptr) return;
  try {
    side_->poll();
  } catch (const CommError&) {
    error_ = std::current_exception();  // not for the framework, whose call this is in
  }
}

uint64_t AsyncServerExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  take_mean_of_own_samples(step_, *tensors_);
  tensors_ = nullptr;
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (side_ != nullptr) side_->poll();
  return 0;
}

void AsyncServerExchange::abandon() noexcept {
  if (side_ != nullptr) side_->drop();
}

uint64_t AsyncServerExchange::after_update(FlatTensors& tensors) {
  if (side_ == nullptr) return 0;
  const at::Tensor update = (tensors.parameters - before_).mul_(step_.share);
  tensors.parameters.copy_(before_);
  ++steps_;
  settled_ = false;
  side_->push(update, tensors.parameters, steps_ - bound_);
  return bytes_per_step();
}

uint64_t AsyncServerExchange::settle(FlatTensors& tensors) {
  if (std::exchange(settled_, true) || side_ == nullptr) return 0;
  side_->settle(tensors.parameters, steps_);
  return comm_.rank() == 0 ? static_cast<uint64_t>(comm_.size() - 1) * parameter_bytes_ : 0;
}

Json AsyncServerExchange::effective() const { return effective_as_a_whole(side_ == nullptr); }

}  // namespace mlbench::optim
