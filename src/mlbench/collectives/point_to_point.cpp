#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/collectives/exercise.h"

namespace mlbench::collectives {

namespace {

using spec::Collective;
using Works = std::vector<std::unique_ptr<comm::Work>>;

constexpr int kMessageTag = 3, kAnswerTag = 4;

void finish(Works& works) {
  for (const auto& work : works) work->synchronize();
  works.clear();
}

// The messages of a window use the same memory, as in OSU: the transport is measured, not the memory.
class PointToPointExercise final : public Exercise {
 public:
  PointToPointExercise(const Workplace& workplace, Collective operation, DType dtype, int64_t count, int64_t window,
                       int first, int second)
      : at_(workplace),
        operation_(operation),
        dtype_(dtype),
        count_(count),
        window_(window),
        is_first_(workplace.comm.rank() == first),
        is_second_(workplace.comm.rank() == second),
        own_(workplace.comm.rank()),
        peer_(is_first_ ? second : first) {}

  void prepare(uint64_t seed) override {
    if (!takes_part()) return;
    seed_ = seed;
    at_.send.clear(bytes());
    at_.receive.clear(bytes());
    at_.send.write(moved_pattern(dtype_, own_, peer_, seed), dtype_, 0, 0, count_);
    at_.memory.synchronize();
  }

  void run() override {
    if (!takes_part()) return;
    if (operation_ == Collective::kLatency) return ping_pong();
    if (operation_ == Collective::kBandwidth) return one_way();
    both_ways();
  }

  int64_t wrong() override {
    if (!takes_part()) return 0;
    const bool received = operation_ != Collective::kBandwidth || is_second_;
    int64_t wrong = at_.send.trespasses(bytes()) + at_.receive.trespasses(bytes());
    wrong += at_.send.differing(moved_pattern(dtype_, own_, peer_, seed_), dtype_, 0, 0, count_);
    if (received) wrong += at_.receive.differing(moved_pattern(dtype_, peer_, own_, seed_), dtype_, 0, 0, count_);
    return wrong;
  }

 private:
  bool takes_part() const { return is_first_ || is_second_; }
  size_t bytes() const { return static_cast<size_t>(count_) * size_of(dtype_); }
  BufferView sent() const { return {at_.send.data(), count_, dtype_, at_.memory.stream()}; }
  BufferView received() const { return {at_.receive.data(), count_, dtype_, at_.memory.stream()}; }

  void ping_pong() {
    if (is_first_) {
      at_.comm.send(sent(), peer_, kMessageTag);
      at_.comm.recv(received(), peer_, kMessageTag);
    } else {
      at_.comm.recv(received(), peer_, kMessageTag);
      at_.comm.send(sent(), peer_, kMessageTag);
    }
  }

  // The acknowledgement is one element of the buffer that carried nothing in the other direction.
  void one_way() {
    for (int64_t i = 0; i < window_; ++i) {
      works_.push_back(is_first_ ? at_.comm.send_async(sent(), peer_, kMessageTag)
                                 : at_.comm.recv_async(received(), peer_, kMessageTag));
    }
    finish(works_);
    const int64_t one = count_ > 0 ? 1 : 0;
    if (is_first_) {
      at_.comm.recv(received().slice(0, one), peer_, kAnswerTag);
    } else {
      at_.comm.send(sent().slice(0, one), peer_, kAnswerTag);
    }
  }

  void both_ways() {
    for (int64_t i = 0; i < window_; ++i) works_.push_back(at_.comm.recv_async(received(), peer_, kMessageTag));
    for (int64_t i = 0; i < window_; ++i) works_.push_back(at_.comm.send_async(sent(), peer_, kMessageTag));
    finish(works_);
  }

  Workplace at_;
  Collective operation_;
  DType dtype_;
  int64_t count_, window_;
  bool is_first_, is_second_;
  int own_, peer_;
  uint64_t seed_ = 0;
  Works works_;
};

}  // namespace

std::unique_ptr<Exercise> make_point_to_point(const Workplace& workplace, Collective operation, DType dtype,
                                              int64_t count, int64_t window, int first, int second) {
  MLBENCH_CHECK(spec::traits_of(operation).point_to_point && first != second,
                "two ranks of a point-to-point operation");
  return std::make_unique<PointToPointExercise>(workplace, operation, dtype, count, window, first, second);
}

}  // namespace mlbench::collectives
