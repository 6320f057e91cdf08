#include "mlbench/compress/power_sgd.h"

#include "mlbench/compress/flat_values.h"

namespace mlbench::compress {

namespace {

constexpr const char* kQ = "coder/q";
constexpr const char* kPowerSteps = "coder/steps";

}  // namespace

PowerSgdCoder::PowerSgdCoder(const PowerSgdOptions& options, const CoderContext& context)
    : options_(options),
      seed_(context.seed),
      elements_(context.layout.parameter_count()),
      batch_(options.batched ? std::optional<SquareBatch>(context.layout) : std::nullopt),
      parts_(batch_ ? batch_->layout() : context.layout, options.rank, batch_ ? 0 : options.min_compression),
      memory_(name(), batch_ ? batch_->layout() : context.layout, options.error_feedback),
      q_(at::zeros({parts_.q_elements()})) {}

std::optional<uint64_t> PowerSgdCoder::bytes_per_step() const {
  if (options_.start_step > 0) return std::nullopt;
  return static_cast<uint64_t>(parts_.p_elements() + parts_.q_elements() + parts_.plain_elements()) * sizeof(float);
}

Payload PowerSgdCoder::encode(int round, const at::Tensor& gradient) {
  Payload payload;
  if (!compresses()) {
    if (round == 0) return LowRankParts::whole_payload(gradient, elements_);
    payload.data = at::empty({0});
    return payload;
  }
  if (round == 0) {
    if (!options_.warm_start || steps_ == 0) q_ = parts_.drawn_q(seed_, step_.step);
    const at::Tensor own = batch_ ? batch_->from(gradient) : gradient;
    corrected_ = memory_.enabled() ? at::add(own, memory_.values()) : own.clone();
    payload = parts_.payload_of(parts_.p_elements(), corrected_);
    for (const Matrix& matrix : parts_.matrices()) {
      at::Tensor p = LowRankParts::p_of(payload.data, matrix);
      at::mm_out(p, LowRankParts::matrix_in(corrected_, matrix), LowRankParts::q_of(q_, matrix));
    }
    return payload;
  }
  payload.data = at::empty({parts_.q_elements()});
  payload.bytes = payload.data.nbytes();
  for (const Matrix& matrix : parts_.matrices()) {
    at::Tensor q = LowRankParts::q_of(payload.data, matrix);
    at::mm_out(q, LowRankParts::matrix_in(corrected_, matrix).t(), LowRankParts::p_of(p_, matrix));
  }
  return payload;
}

void PowerSgdCoder::absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) {
  if (!compresses()) {
    if (round == 0) LowRankParts::take_whole(results[0], gradient);
    return;
  }
  if (round == 0) {
    p_ = results[0].narrow(0, 0, parts_.p_elements()).clone();
    for (const Matrix& matrix : parts_.matrices()) orthogonalise(LowRankParts::p_of(p_, matrix));
    parts_.take_plain(parts_.p_elements(), results[0], gradient);
    return;
  }
  ++steps_;
  q_.copy_(results[0]);
  at::Tensor product = batch_ ? at::empty_like(corrected_) : gradient;
  parts_.put_products(p_, q_, product);
  if (batch_) batch_->put(product, gradient);
  if (!memory_.enabled()) return;
  for (const Matrix& matrix : parts_.matrices()) {
    at::Tensor error = LowRankParts::matrix_in(memory_.values(), matrix);
    at::sub_out(error, LowRankParts::matrix_in(corrected_, matrix), LowRankParts::matrix_in(product, matrix),
                step_.share);
  }
}

void PowerSgdCoder::export_state(NamedState& state) const {
  memory_.export_state(state);
  if (!options_.warm_start) return;
  export_values(kQ, q_, state);
  state.scalars[kPowerSteps] = steps_;
}

void PowerSgdCoder::import_state(const NamedState& state) {
  memory_.import_state(state);
  if (!options_.warm_start) return;
  import_values(kQ, state, q_);
  steps_ = state.integer(kPowerSteps);
}

}  // namespace mlbench::compress
