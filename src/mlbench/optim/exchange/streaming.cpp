#include "mlbench/optim/exchange/streaming.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/part_coders.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kStreamingSteps = "exchange/local_steps";
const std::string kUnderWay = "exchange/under_way";

std::string fragment_key(size_t fragment) { return fmt::format("exchange/fragment{}/", fragment); }

// The ranges of each fragment: trainable ones in a row, at least one in each. A fragment ends at the tensor's end that
// is nearest to its share of all elements.
std::vector<std::vector<FlatRange>> cut_into_fragments(const FlatLayout& layout, int64_t most) {
  std::vector<FlatRange> tensors;
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable) tensors.push_back(range);
  }
  const int64_t count = std::clamp<int64_t>(std::ssize(tensors), 1, most), elements = layout.parameter_count();
  std::vector<std::vector<FlatRange>> fragments(1);
  int64_t done = 0, left = std::ssize(tensors);
  for (const FlatRange& tensor : tensors) {
    const int64_t begun = std::ssize(fragments);
    const bool full = (2 * done + tensor.count) * count >= 2 * elements * begun;
    if (!fragments.back().empty() && begun < count && (full || left <= count - begun)) fragments.emplace_back();
    fragments.back().push_back(tensor);
    done += tensor.count;
    --left;
  }
  return fragments;
}

void check_streaming_options(const StreamingOptions& options) {
  if (options.fragments > options.every) {
    throw UserError(fmt::format("fragments is {} with every {}; expected at most one fragment in each step",
                                options.fragments, options.every));
  }
  if (options.delay >= options.every) {
    throw UserError(
        fmt::format("delay is {} with every {}; expected a delay below every, so that a fragment is back "
                    "before it is sent again",
                    options.delay, options.every));
  }
  if (options.overlap && options.delay == 0) {
    throw UserError("overlap is true with delay 0; expected a delay of at least 1, or overlap false");
  }
}

}  // namespace

StreamingExchange::StreamingExchange(const ExchangeContext& context, const StreamingOptions& options)
    : comm_(context.comm),
      layout_(context.layout),
      memory_(context.memory),
      options_(options),
      outer_(options.outer, context.layout, context.memory) {
  check_streaming_options(options);
  MLBENCH_CHECK(context.make_coder, "fragments need coders of their own");
  const auto cut = cut_into_fragments(context.layout, options.fragments);
  for (size_t number = 0; number < cut.size(); ++number) {
    Fragment& fragment = fragments_.emplace_back();
    const int64_t first = number == 0 ? 0 : cut[number].front().offset;
    const int64_t end = number + 1 < cut.size() ? cut[number + 1].front().offset : layout_.parameter_elements;
    fragment.part = {first, end - first};
    fragment.layout.ranges = cut[number];
    for (FlatRange& range : fragment.layout.ranges) range.offset -= first;
    fragment.layout.parameter_elements = fragment.part.count;
    fragment.offset = (static_cast<int64_t>(number) + 1) * options.every / std::ssize(cut);
  }
  for (Fragment& fragment : fragments_) {
    fragment.coder = context.make_coder({fragment.layout, context.seed, comm_.rank(), comm_.size()});
    fragment.sum = std::make_unique<CodedSum>(
        ExchangeContext{.comm = comm_, .coder = *fragment.coder, .layout = fragment.layout, .memory = memory_});
  }
  if (!options.overlap) return;
  overlap_off_ = memory_ != nullptr ? "parameters are in separate memory" : context.place.crowded;
  if (overlap_off_.empty()) thread_ = std::make_unique<CommunicationThread>(context.place.cores);
}

Promise StreamingExchange::promise() const { return {false, comm_.size() == 1, std::nullopt}; }

bool StreamingExchange::is_sent(const Fragment& fragment, int64_t age) const {
  const int64_t since = local_steps_ - age - fragment.offset;
  return since >= 0 && since % options_.every == 0;
}

bool StreamingExchange::any_under_way() const {
  for (const Fragment& fragment : fragments_) {
    for (int64_t age = 0; age < options_.delay; ++age) {
      if (is_sent(fragment, age)) return true;
    }
  }
  return false;
}

StreamingExchange::Fragment* StreamingExchange::to_sum() {
  if (options_.delay == 0) return nullptr;
  const auto found = std::ranges::find_if(fragments_, [&](const Fragment& fragment) { return is_sent(fragment, 0); });
  return found == fragments_.end() ? nullptr : &*found;
}

at::Tensor StreamingExchange::under_way(const Fragment& fragment) const {
  return under_way_.narrow(0, fragment.part.offset, fragment.part.count);
}

uint64_t StreamingExchange::sum(Fragment& fragment) {
  compress::StepContext outer = step_;
  outer.share = 1 / static_cast<double>(comm_.size());
  fragment.coder->begin(outer);
  at::Tensor difference = under_way(fragment);
  return fragment.sum->sum(difference);
}

void StreamingExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
  outer_.begin(tensors.parameters);
  Fragment* fragment = to_sum();
  if (thread_ && fragment != nullptr) thread_->submit([this, fragment] { sent_bytes_ = sum(*fragment); });
}

uint64_t StreamingExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  take_mean_of_own_samples(step_, *tensors_);
  tensors_ = nullptr;
  Fragment* fragment = to_sum();
  if (fragment == nullptr) return 0;
  if (!thread_) return sum(*fragment);
  thread_->finish();
  return sent_bytes_;
}

void StreamingExchange::abandon() noexcept {
  if (thread_) thread_->abandon();
}

uint64_t StreamingExchange::after_update(FlatTensors& tensors) {
  ++local_steps_;
  uint64_t bytes = 0;
  for (Fragment& fragment : fragments_) {
    if (is_sent(fragment, 0)) {
      if (!under_way_.defined()) under_way_ = at::zeros_like(outer_.anchor());
      const auto part = [&](const at::Tensor& flat) {
        return flat.narrow(0, fragment.part.offset, fragment.part.count);
      };
      at::Tensor difference = under_way(fragment);
      at::sub_out(difference, part(outer_.anchor()), part(tensors.parameters));
      difference.mul_(1 / static_cast<double>(comm_.size()));
      if (options_.delay == 0) bytes += sum(fragment);
    }
    if (is_sent(fragment, options_.delay)) average(fragment, tensors);
  }
  return bytes;
}

void StreamingExchange::average(const Fragment& fragment, FlatTensors& tensors) {
  outer_.step(fragment.part, under_way(fragment));
  const at::Tensor anchor = outer_.anchor().narrow(0, fragment.part.offset, fragment.part.count);
  at::Tensor own = tensors.parameters.narrow(0, fragment.part.offset, fragment.part.count);
  own.copy_(options_.mixing == 0 ? anchor : at::lerp(anchor, own, options_.mixing));
}

void StreamingExchange::export_state(NamedState& state) const {
  state.scalars[kStreamingSteps] = local_steps_;
  outer_.export_state(state);
  if (any_under_way()) export_flat(kUnderWay, layout_, under_way_, memory_, state);
  for (size_t number = 0; number < fragments_.size(); ++number) {
    export_coder(fragment_key(number), *fragments_[number].coder, state);
  }
}

void StreamingExchange::import_state(const NamedState& state) {
  local_steps_ = state.integer(kStreamingSteps);
  if (local_steps_ == 0) return;
  outer_.import_state(state);
  if (any_under_way()) {
    under_way_ = at::zeros_like(outer_.anchor());
    import_flat(kUnderWay, layout_, state, memory_, under_way_);
  }
  for (size_t number = 0; number < fragments_.size(); ++number) {
    import_coder(fragment_key(number), state, *fragments_[number].coder);
  }
}

Json StreamingExchange::effective() const {
  Json effective = effective_as_a_whole(fragments_.front().coder->one_collective());
  effective["buckets"] = std::ssize(fragments_);
  effective["overlap"] = thread_ != nullptr;
  if (!overlap_off_.empty()) effective["overlap_off"] = overlap_off_;
  return effective;
}

}  // namespace mlbench::optim
