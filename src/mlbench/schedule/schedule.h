#pragma once

// Learning-rate schedules: scaling with the number of workers, warm-up, decay. A schedule is a pure function of the
// step and of the evaluations seen so far, the same on every rank. Let lr be the task's rate, L be lr scaled for k
// workers, W the length of the warm-up in steps (rounded), and s the step from 0. The rate is
//   warm-up       A + (L - A) * s / W for s < W, then L, where A is lr, or 0 with warmup_from "zero";
//                 "exponential": L * warmup_factor ^ ((W - s) / W)
// and is then multiplied by the decay:
//   constant      1
//   multistep     factor ^ (milestones reached); a milestone at epoch e is reached at step round(e * steps per epoch),
//                 and one of m steps of all workers at step floor(m / k)
//   piecewise     the last of `factors` whose milestone is reached; 1 before the first
//   fractions     as multistep, with milestones at round(fraction * all steps)
//   plateau       max(floor, factor ^ n): n grows by one when `patience` evaluations in a row had no finite loss
//                 at least `threshold` below the best one. Evaluations during the warm-up don't count.
//   inverse_sqrt  1 / sqrt(t), t = s + 1
//   inverse_sqrt_after_warmup  1 for s < W, then sqrt(W / s) (Vaswani et al. 2017, section 5.3)
//   inverse_time  1 / max(1, s + shift) (Bottou 2012; MLBench's TimeDecayLR and SparsifiedSGDLR)
// The following go from the end of the warm-up to the last of all steps, T - 1; u is the part of that way, from 0 to 1,
// and f is `floor`:
//   cosine        f + (1 - f) (1 + cos(pi u)) / 2 (Loshchilov and Hutter 2017, without restarts)
//   polynomial    f + (1 - f) (1 - u) ^ power; power 1 is linear
//   stable_decay  1 until the step fraction * T, then linear to f (warm-up, stable, decay: Hu et al. 2024)
//   one_cycle     without warm-up: up from `factor` to 1 until the step fraction * T - 1, then down to f, each along
//                 half a cosine (Smith and Topin 2018; torch.optim.lr_scheduler.OneCycleLR with factor 1 / div_factor
//                 and floor 1 / (div_factor final_div_factor))
// With by_length the rate is also multiplied by the relative length of the step's sequences (Merity et al. 2018,
// section 5).
//
// Only steps that changed the weights count: a skipped step (optim/loss_scaler.h) does not.

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/spec/task.h"

namespace mlbench::schedule {

struct ScheduleContext {
  double base_lr = 0;
  int64_t workers = 1;
  int64_t steps_per_epoch = 1;
  // The steps of the task's epochs, whatever limits the run has; decays over all steps need them.
  int64_t total_steps = 0;
};

// What the batch plan says of a step.
struct StepFacts {
  double relative_length = 1;  // the length of its sequences over the usual length (bptt)
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // The learning rate of a global step (from 0).
  double lr(int64_t step, const StepFacts& facts = {}) const {
    return by_length_ ? rate(step) * facts.relative_length : rate(step);
  }
  // Tells the validation loss of an evaluation that ended after `step` steps; only the decay "plateau" uses it.
  virtual void on_evaluation(int64_t step, double validation_loss) = 0;
  virtual void export_state(NamedState& state) const = 0;  // keys "schedule/..."
  virtual void import_state(const NamedState& state) = 0;

 protected:
  explicit Schedule(bool by_length) : by_length_(by_length) {}
  virtual double rate(int64_t step) const = 0;

 private:
  const bool by_length_;
};

// Throws UserError naming the valid choices for an unknown scaling, warm-up or decay.
std::unique_ptr<Schedule> make_schedule(const spec::ScheduleSpec& spec, const ScheduleContext& context);

}  // namespace mlbench::schedule
