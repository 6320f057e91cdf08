#include "mlbench/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"

namespace mlbench::schedule {

namespace {

template <typename Choices>
[[noreturn]] void unknown(const char* what, const std::string& given, const Choices& choices) {
  refuse_unknown(std::string("schedule.") + what, given, texts_of(choices));
}

double scaled_lr(const spec::ScheduleSpec& spec, const ScheduleContext& context) {
  const auto workers = static_cast<double>(context.workers);
  if (spec.scaling == "none") return context.base_lr;
  if (spec.scaling == "linear") return context.base_lr * workers;
  if (spec.scaling == "sqrt") return context.base_lr * std::sqrt(workers);
  if (spec.scaling == "table") {
    const auto found = spec.lr_by_workers.find(context.workers);
    if (found != spec.lr_by_workers.end()) return found->second;
    std::vector<int64_t> listed;
    for (const auto& [k, lr] : spec.lr_by_workers) listed.push_back(k);
    throw UserError(
        fmt::format("the task gives no learning rate for {} workers, only for {}: set one with "
                    "--set schedule.lr_by_workers.{}=RATE",
                    context.workers, fmt::join(listed, ", "), context.workers));
  }
  unknown("scaling", spec.scaling, spec::kScalings);
}

int64_t count_warmup_steps(const spec::ScheduleSpec& spec, const ScheduleContext& context) {
  if (spec.warmup == "linear_steps" || spec.warmup == "exponential") return spec.warmup_steps;
  double epochs = 0;
  if (spec.warmup == "epochs") {
    epochs = spec.warmup_epochs;
  } else if (spec.warmup == "worker_epochs") {
    epochs = spec.warmup_epochs * static_cast<double>(context.workers);
  } else if (spec.warmup == "log2_workers") {
    epochs = std::log2(static_cast<double>(context.workers));
  } else if (spec.warmup != "none") {
    unknown("warmup", spec.warmup, spec::kWarmups);
  }
  return std::llround(epochs * static_cast<double>(context.steps_per_epoch));
}

// Has scaling and warm-up, and by itself the decay "constant".
class WarmUp : public Schedule {
 public:
  WarmUp(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : Schedule(spec.by_length),
        start_(spec.warmup_from == "zero" ? 0 : context.base_lr),
        peak_(scaled_lr(spec, context)),
        warmup_steps_(count_warmup_steps(spec, context)),
        exponential_(spec.warmup == "exponential"),
        warmup_factor_(spec.warmup_factor) {
    if (std::ranges::find(spec::kWarmupStarts, spec.warmup_from) == std::end(spec::kWarmupStarts)) {
      unknown("warmup_from", spec.warmup_from, spec::kWarmupStarts);
    }
  }

  void on_evaluation(int64_t, double) override {}
  void export_state(NamedState&) const override {}
  void import_state(const NamedState&) override {}

 protected:
  double rate(int64_t step) const override {
    if (step >= warmup_steps_) return peak_;
    const auto done = static_cast<double>(step);
    const auto all = static_cast<double>(warmup_steps_);
    if (exponential_) return peak_ * std::pow(warmup_factor_, (all - done) / all);
    return start_ + (peak_ - start_) * done / all;
  }
  int64_t warmup_steps() const { return warmup_steps_; }

 private:
  double start_, peak_;
  int64_t warmup_steps_;
  bool exponential_;
  double warmup_factor_;
};

// The milestones in steps; the task gives them in epochs, in steps of all workers, or in fractions of all steps.
std::vector<int64_t> milestone_steps(const spec::ScheduleSpec& spec, const ScheduleContext& context) {
  const bool fractions = spec.decay == "fractions";
  MLBENCH_CHECK(!fractions || context.total_steps > 0, "a decay at fractions of no steps");
  const auto step_at = [&](double place) {
    if (fractions) return std::llround(place * static_cast<double>(context.total_steps));
    if (spec.milestone_unit == "epochs") return std::llround(place * static_cast<double>(context.steps_per_epoch));
    return static_cast<long long>(std::floor(place / static_cast<double>(context.workers)));
  };
  std::vector<int64_t> steps;
  for (const double place : fractions ? spec.fractions : spec.milestones) steps.push_back(step_at(place));
  return steps;
}

class MultiStep final : public WarmUp {
 public:
  MultiStep(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : WarmUp(spec, context), factor_(spec.factor), milestones_(milestone_steps(spec, context)) {}

 protected:
  double rate(int64_t step) const override {
    const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin();
    return WarmUp::rate(step) * std::pow(factor_, static_cast<double>(passed));
  }

 private:
  double factor_;
  std::vector<int64_t> milestones_;  // ascending
};

class Piecewise final : public WarmUp {
 public:
  Piecewise(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : WarmUp(spec, context), factors_(spec.factors), milestones_(milestone_steps(spec, context)) {}

 protected:
  double rate(int64_t step) const override {
    const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin();
    return WarmUp::rate(step) * (passed == 0 ? 1 : factors_[static_cast<size_t>(passed - 1)]);
  }

 private:
  std::vector<double> factors_;
  std::vector<int64_t> milestones_;  // ascending
};

class InverseTime final : public WarmUp {
 public:
  InverseTime(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : WarmUp(spec, context), shift_(spec.shift) {}

 protected:
  double rate(int64_t step) const override {
    return WarmUp::rate(step) / std::max(1.0, static_cast<double>(step) + shift_);
  }

 private:
  double shift_;
};

// Half a cosine from `from` to `to`, at the part `u` of the way.
double half_cosine(double from, double to, double u) { return to + (from - to) * (1 + std::cos(M_PI * u)) / 2; }

// A decay from one step to the last of all steps, given as a function of the part of that way.
class ToTheEnd : public WarmUp {
 public:
  ToTheEnd(const spec::ScheduleSpec& spec, const ScheduleContext& context, double begin)
      : WarmUp(spec, context), floor_(spec.floor), begin_(begin), end_(static_cast<double>(context.total_steps - 1)) {
    MLBENCH_CHECK(context.total_steps > 0, "a decay over no steps");
  }

 protected:
  double rate(int64_t step) const override {
    const auto at = static_cast<double>(step);
    const double way = end_ - begin_;
    const double u = at <= begin_ ? 0 : way <= 0 ? 1 : std::min(1.0, (at - begin_) / way);
    return WarmUp::rate(step) * share(at, u);
  }
  // The share of the warmed-up rate at a step, and at the part `u` of the decay's way.
  virtual double share(double step, double u) const = 0;
  double floor() const { return floor_; }
  double begin() const { return begin_; }

 private:
  double floor_, begin_, end_;
};

class Cosine final : public ToTheEnd {
 public:
  Cosine(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : ToTheEnd(spec, context, static_cast<double>(count_warmup_steps(spec, context))) {}

 protected:
  double share(double, double u) const override { return half_cosine(1, floor(), u); }
};

class Polynomial final : public ToTheEnd {
 public:
  Polynomial(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : ToTheEnd(spec, context, static_cast<double>(count_warmup_steps(spec, context))), power_(spec.power) {}

 protected:
  double share(double, double u) const override { return floor() + (1 - floor()) * std::pow(1 - u, power_); }

 private:
  double power_;
};

// The step at the task's one fraction of all steps.
double step_at_fraction(const spec::ScheduleSpec& spec, const ScheduleContext& context) {
  return spec.fractions.at(0) * static_cast<double>(context.total_steps);
}

class StableDecay final : public ToTheEnd {
 public:
  StableDecay(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : ToTheEnd(spec, context, step_at_fraction(spec, context)) {}

 protected:
  double share(double, double u) const override { return floor() + (1 - floor()) * (1 - u); }
};

class OneCycle final : public ToTheEnd {
 public:
  OneCycle(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : ToTheEnd(spec, context, step_at_fraction(spec, context) - 1), factor_(spec.factor) {}

 protected:
  double share(double step, double u) const override {
    return step <= begin() && begin() > 0 ? half_cosine(factor_, 1, step / begin()) : half_cosine(1, floor(), u);
  }

 private:
  double factor_;
};

class InverseSqrt final : public WarmUp {
 public:
  using WarmUp::WarmUp;

 protected:
  double rate(int64_t step) const override { return WarmUp::rate(step) / std::sqrt(static_cast<double>(step + 1)); }
};

class InverseSqrtAfterWarmUp final : public WarmUp {
 public:
  using WarmUp::WarmUp;

 protected:
  double rate(int64_t step) const override {
    // A warm-up that is rounded to no step counts as one.
    const int64_t from = std::max<int64_t>(warmup_steps(), 1);
    if (step <= from) return WarmUp::rate(step);
    return WarmUp::rate(step) * std::sqrt(static_cast<double>(from) / static_cast<double>(step));
  }
};

class Plateau final : public WarmUp {
 public:
  Plateau(const spec::ScheduleSpec& spec, const ScheduleContext& context)
      : WarmUp(spec, context),
        factor_(spec.factor),
        patience_(spec.patience),
        threshold_(spec.threshold),
        floor_(spec.floor) {}

  void on_evaluation(int64_t step, double validation_loss) override {
    if (step < warmup_steps()) return;
    if (std::isfinite(validation_loss) && validation_loss <= best_ - threshold_) {
      best_ = validation_loss;
      bad_ = 0;
    } else if (++bad_ >= patience_) {
      reductions_.push_back(step);
      bad_ = 0;
    }
  }

  void export_state(NamedState& state) const override {
    HostTensor steps{DType::kInt64, {static_cast<int64_t>(reductions_.size())}, {}};
    steps.bytes.resize(reductions_.size() * sizeof(int64_t));
    if (!reductions_.empty()) std::memcpy(steps.bytes.data(), reductions_.data(), steps.bytes.size());
    state.tensors["schedule/reductions"] = std::move(steps);
    state.scalars["schedule/best"] = best_;
    state.scalars["schedule/bad"] = bad_;
  }

  void import_state(const NamedState& state) override {
    const HostTensor& steps = state.tensor("schedule/reductions");
    if (steps.dtype != DType::kInt64 || steps.bytes.size() % sizeof(int64_t) != 0) {
      throw UserError("checkpoint tensor 'schedule/reductions' is not a list of 64-bit integers");
    }
    reductions_.resize(steps.bytes.size() / sizeof(int64_t));
    if (!reductions_.empty()) std::memcpy(reductions_.data(), steps.bytes.data(), steps.bytes.size());
    best_ = state.real("schedule/best");
    bad_ = state.integer("schedule/bad");
  }

 protected:
  double rate(int64_t step) const override {
    const auto passed = std::upper_bound(reductions_.begin(), reductions_.end(), step) - reductions_.begin();
    return WarmUp::rate(step) * std::max(floor_, std::pow(factor_, static_cast<double>(passed)));
  }

 private:
  double factor_;
  int64_t patience_;
  double threshold_, floor_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0;                  // evaluations in a row without an improvement
  std::vector<int64_t> reductions_;  // the steps from which on one more factor counts, ascending
};

template <typename Decay>
std::unique_ptr<Schedule> make(const spec::ScheduleSpec& spec, const ScheduleContext& context) {
  return std::make_unique<Decay>(spec, context);
}

struct DecayRow {
  std::string_view name;
  std::unique_ptr<Schedule> (*make)(const spec::ScheduleSpec& spec, const ScheduleContext& context);
};
constexpr DecayRow kDecayRows[] = {
    {"constant", make<WarmUp>},
    {"multistep", make<MultiStep>},
    {"piecewise", make<Piecewise>},
    {"fractions", make<MultiStep>},
    {"plateau", make<Plateau>},
    {"inverse_sqrt", make<InverseSqrt>},
    {"inverse_sqrt_after_warmup", make<InverseSqrtAfterWarmUp>},
    {"cosine", make<Cosine>},
    {"polynomial", make<Polynomial>},
    {"stable_decay", make<StableDecay>},
    {"one_cycle", make<OneCycle>},
    {"inverse_time", make<InverseTime>},
};

}  // namespace

std::unique_ptr<Schedule> make_schedule(const spec::ScheduleSpec& spec, const ScheduleContext& context) {
  MLBENCH_CHECK(context.base_lr > 0 && context.workers > 0 && context.steps_per_epoch > 0, "empty schedule context");
  for (const DecayRow& row : kDecayRows) {
    if (row.name == spec.decay) return row.make(spec, context);
  }
  unknown("decay", spec.decay, spec::kDecays);
}

}  // namespace mlbench::schedule
