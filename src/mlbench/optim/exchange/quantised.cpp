#include "mlbench/optim/exchange/quantised.h"

#include <fmt/format.h>

#include <numeric>
#include <span>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/exchange/part_coders.h"

namespace mlbench::optim {

namespace {

const std::string kSumKey = "exchange/sum/";

std::string part_key(size_t part) { return fmt::format("exchange/part{}/", part); }

// Pieces of `counts` elements that lie one behind the other.
std::vector<at::Tensor> split_by(const std::vector<int64_t>& counts, const at::Tensor& all) {
  std::vector<at::Tensor> pieces;
  int64_t first = 0;
  for (const int64_t count : counts) {
    pieces.push_back(all.narrow(0, first, count));
    first += count;
  }
  return pieces;
}

}  // namespace

QuantisedExchange::QuantisedExchange(const ExchangeContext& context) : comm_(context.comm) {
  if (!context.coder.adds_payloads()) {
    throw UserError(fmt::format(
        "compression '{}' with the pattern quantised, whose ranks add coded parts of the gradient; expected "
        "int8, fp8, fp4, ef_sign, one_bit, natural, or qsgd with coding=\"fixed\"",
        context.coder.name()));
  }
  MLBENCH_CHECK(context.make_coder, "parts need coders of their own");
  const int64_t elements = context.layout.parameter_elements;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    Part& part = parts_.emplace_back();
    part.part = part_of_rank(elements, rank, comm_.size());
    part.layout = layout_of_part(context.layout, part.part);
  }
  // Each coder draws numbers of its own.
  uint64_t label = 0;
  const auto make = [&](const FlatLayout& layout) {
    return context.make_coder({layout, derive_key(context.seed, {kCoderStream, label++}), comm_.rank(), comm_.size()});
  };
  for (Part& part : parts_) {
    part.coder = make(part.layout);
    counts_.push_back(part.bytes());
  }
  sum_coder_ = make(own().layout);
  sum_ = at::zeros({own().part.count});
  if (context.memory != nullptr) staging_ = std::make_unique<Staging>(*context.memory, elements);
}

Promise QuantisedExchange::promise() const {
  const int64_t bytes = std::accumulate(counts_.begin(), counts_.end(), own().bytes());
  return {false, true, alone() ? 0 : static_cast<uint64_t>(bytes)};
}

void QuantisedExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  tensors_ = &tensors;
  for (const Part& part : parts_) part.coder->begin(step);
  sum_coder_->begin(step);
}

std::vector<at::Tensor> QuantisedExchange::exchange_parts(const at::Tensor& gradients) {
  std::vector<at::Tensor> payloads;
  for (const Part& part : parts_) payloads.push_back(part.coder->encode(0, part.of(gradients)).data);
  if (alone()) return payloads;
  const at::Tensor sent = at::cat(payloads);
  const std::vector<int64_t> counts(parts_.size(), own().bytes());
  const at::Tensor received = at::empty({own().bytes() * comm_.size()}, sent.options());
  comm_.all_to_all_v(view_of(sent), view_of(received), counts_, counts);
  return split_by(counts, received);
}

std::vector<at::Tensor> QuantisedExchange::gather_sums(const compress::Payload& sum) {
  if (alone()) return {sum.data};
  const at::Tensor all = at::empty({std::reduce(counts_.begin(), counts_.end())}, sum.data.options());
  comm_.all_gather_v(view_of(sum.data), view_of(all), counts_);
  return split_by(counts_, all);
}

uint64_t QuantisedExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  at::Tensor& gradients = tensors_->gradients;
  tensors_ = nullptr;
  at::Tensor& flat = staging_ ? staging_->host() : gradients;
  if (staging_) staging_->fetch(gradients, 0, gradients.numel());
  own().coder->absorb(0, exchange_parts(flat), sum_);
  const std::vector<at::Tensor> sums = gather_sums(sum_coder_->encode(0, sum_));
  for (size_t number = 0; number < parts_.size(); ++number) {
    at::Tensor part = parts_[number].of(flat);
    parts_[number].coder->absorb(0, std::span(&sums[number], 1), part);
  }
  if (staging_) staging_->put_back(gradients, 0, gradients.numel());
  return promise().bytes_per_step.value();
}

void QuantisedExchange::export_state(NamedState& state) const {
  for (size_t number = 0; number < parts_.size(); ++number) {
    export_coder(part_key(number), *parts_[number].coder, state);
  }
  export_coder(kSumKey, *sum_coder_, state);
}

void QuantisedExchange::import_state(const NamedState& state) {
  for (size_t number = 0; number < parts_.size(); ++number) {
    import_coder(part_key(number), state, *parts_[number].coder);
  }
  import_coder(kSumKey, state, *sum_coder_);
}

Json QuantisedExchange::effective() const {
  Json effective = effective_as_a_whole(alone());
  if (staging_) effective["staged"] = true;
  return effective;
}

}  // namespace mlbench::optim
