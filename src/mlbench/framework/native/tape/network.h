#pragma once

// A network: a model's tape (build.h), the plan of its memory (memory_plan.h), and passes by a team of threads
// (team.h).

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/base/json.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/tape/build.h"
#include "mlbench/framework/native/tape/memory_plan.h"
#include "mlbench/framework/native/tape/profile.h"
#include "mlbench/framework/native/tape/tape.h"
#include "mlbench/framework/native/tape/team.h"

namespace mlbench::framework::native_framework {

// Precondition of every call: it comes from the thread that made the network. Passes throw UserError where OpenMP gives
// fewer threads than the options ask for.
class Network {
 public:
  // Throws UserError for a kind of layer that this framework lacks, and for bfloat16 where the CPU cannot multiply it.
  explicit Network(const NetworkOptions& options);

  // `micro_batch` is the number of earlier training passes of the step.
  void forward(const BatchView& batch, bool training, int64_t step, int64_t micro_batch);
  // The logits of the last forward pass, [samples, outputs].
  std::span<const float> outputs() const;
  // Computes the gradients of parameters from `output_gradient`, that of the outputs of the last forward pass, which
  // must have been a training pass. The calling thread tells `ready` each range when it is final, between segments. For
  // that, the team parts at the end of each segment and meets again, which it does not with an empty `ready`.
  using Ready = std::function<void(int64_t first, int64_t count)>;
  void backward(std::span<const float> output_gradient, bool accumulate, const Ready& ready);

  const std::vector<std::string>& fused() const { return tape_->fused; }  // "batch_norm2d+relu" ...
  const std::string& layout() const { return tape_->layout; }             // "nChw16c"
  const auto& convolutions() const { return tape_->convolutions; }        // as in Tape
  const char* instruction_set() const { return name_of(set_); }           // of this project's own kernels
  void profile(bool on) { profile_.count(on); }                           // on: counts costs from zero
  std::vector<OperationCost> costs();
  // As Framework::on_layer, with one layer for each segment.
  void on_layer(const Clock& clock, Framework::LayerDone done);

 private:
  void run_forward(size_t segment, int thread);
  void run_backward(size_t segment, int thread);
  void backward_segment(size_t segment, TeamMember& member);
  void note_begin(size_t segment, const TeamMember& member);
  void note_end(size_t segment, const TeamMember& member);
  void tell_times(LayerPass pass);

  // The time of a segment in the current pass, on the first thread.
  struct SegmentTime {
    std::string name;
    TimePoint begin{}, end{};
  };

  InstructionSet set_;
  int64_t outputs_;
  std::unique_ptr<Tape> tape_;
  MemoryPlan plan_;
  Profile profile_;
  Pass pass_;
  const Clock* clock_ = nullptr;  // null: nobody asks when
  Framework::LayerDone layer_done_;
  std::vector<SegmentTime> times_;
};

}  // namespace mlbench::framework::native_framework
