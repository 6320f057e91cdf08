#pragma once

// "streaming": local steps whose averages come by fragments, beside further local steps (Streaming DiLoCo, Douillard
// et al. 2025, algorithm 2). Ranks step by the gradients of their own samples. A fragment is some of the model's
// tensors in a row. With H = every, P fragments and p = 0, 1, ..., fragment p is sent behind local step
// floor((p + 1) H / P), and every H steps from then on. With x_p the fragment that all ranks had behind its last
// average, y_p that of this rank, and the outer optimizer of outer_optimizer.h:
//
//   d_p = mean over ranks of (x_p - y_p), by way of the coder
//   `delay` steps later: x_p <- outer step by d_p;   y_p <- mixing * y_p + (1 - mixing) * x_p
//
// With one fragment, delay 0 and mixing 0 it is "local", bit for bit. The x stay the same on all ranks, as in torchft's
// copy of global parameters. The paper's fragments are whole layers, some layers apart from each other; here they are
// neighbouring tensors, about as many elements in each.
//
// With `overlap` a fragment is coded and sent on a thread of its own, beside the forward and backward pass of the step
// behind the one that it is of. That step waits for what is left of it. Results are the same to the bit.
//
// Bytes: the coder's for the fragment, in the step that sends it; none in the others. Memory beside that of "local":
// one flat buffer for the fragments under way.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/optim/exchange/coded_sum.h"
#include "mlbench/optim/exchange/outer_optimizer.h"

namespace mlbench::optim {

struct StreamingOptions {
  int64_t every = 8;      // H: local steps between two averages of a fragment
  int64_t fragments = 4;  // P at most: no more than the model has tensors
  int64_t delay = 1;      // local steps from sending a fragment to using its average; below `every`
  double mixing = 0.5;    // the share that a rank keeps of its own fragment
  bool overlap = false;
  OuterOptions outer = {};
};

class StreamingExchange final : public Exchange {
 public:
  // Makes a coder for each fragment by context.make_coder. Throws UserError for more fragments than steps in `every`,
  // for a delay that is not below `every`, for overlap without a delay, and for nesterov without momentum.
  StreamingExchange(const ExchangeContext& context, const StreamingOptions& options);
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  void abandon() noexcept override;
  uint64_t after_update(FlatTensors& tensors) override;
  // "exchange/local_steps"; once the first local step was made, the outer optimizer's; while a fragment is under way,
  // "exchange/under_way/<parameter>"; and what the coder of fragment p keeps, as "exchange/fragment<p>/coder/...".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;
  Json effective() const override;

 private:
  struct Fragment {
    FlatPart part;
    FlatLayout layout;   // of the part by itself
    int64_t offset = 0;  // the first local step behind which it is sent
    std::unique_ptr<compress::GradientCoder> coder;
    std::unique_ptr<CodedSum> sum;
  };

  // Whether the fragment was sent `age` steps before the local step that was made last.
  bool is_sent(const Fragment& fragment, int64_t age) const;
  bool any_under_way() const;
  // The fragment that is summed in this step because it was sent behind the one before; null: none is.
  Fragment* to_sum();
  at::Tensor under_way(const Fragment& fragment) const;
  uint64_t sum(Fragment& fragment);
  void average(const Fragment& fragment, FlatTensors& tensors);

  comm::Communicator& comm_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  StreamingOptions options_;
  std::string overlap_off_;
  OuterOptimizer outer_;
  std::vector<Fragment> fragments_;
  compress::StepContext step_;
  FlatTensors* tensors_ = nullptr;
  int64_t local_steps_ = 0;
  at::Tensor under_way_;     // d_p, before or behind the sum; undefined before the first fragment is sent
  uint64_t sent_bytes_ = 0;  // by the thread
  std::unique_ptr<CommunicationThread> thread_;  // last: it uses the others; null: without overlap
};

}  // namespace mlbench::optim
