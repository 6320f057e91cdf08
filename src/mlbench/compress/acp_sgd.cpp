#include "mlbench/compress/acp_sgd.h"

#include "mlbench/compress/flat_values.h"

namespace mlbench::compress {

namespace {

constexpr const char* kFactorP = "coder/p";
constexpr const char* kFactorQ = "coder/q";
constexpr const char* kAlternations = "coder/steps";

}  // namespace

AcpSgdCoder::AcpSgdCoder(const AcpSgdOptions& options, const CoderContext& context)
    : options_(options),
      seed_(context.seed),
      elements_(context.layout.parameter_count()),
      parts_(context.layout, options.rank, options.min_compression),
      memory_(name(), context.layout, options.error_feedback),
      p_(at::zeros({parts_.p_elements()})),
      q_(at::zeros({parts_.q_elements()})) {}

Payload AcpSgdCoder::encode(int /*round*/, const at::Tensor& gradient) {
  if (!compresses()) return LowRankParts::whole_payload(gradient, elements_);
  if (steps_ == 0) q_ = parts_.drawn_q(seed_, step_.step);
  const at::Tensor& m = memory_.with(gradient);
  Payload payload = parts_.payload_of(sent_elements(), m);
  for (const Matrix& matrix : parts_.matrices()) {
    const at::Tensor whole = LowRankParts::matrix_in(m, matrix);
    at::Tensor p = LowRankParts::p_of(sends_p() ? payload.data : p_, matrix);
    at::Tensor q = LowRankParts::q_of(sends_p() ? q_ : payload.data, matrix);
    if (sends_p()) {
      orthogonalise(q);
      at::mm_out(p, whole, q);
    } else {
      orthogonalise(p);
      at::mm_out(q, whole.t(), p);
    }
    if (memory_.enabled()) LowRankParts::matrix_in(memory_.values(), matrix).sub_(at::mm(p, q.t()));
  }
  if (memory_.enabled()) parts_.clear_plain(memory_.values());
  return payload;
}

void AcpSgdCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  if (!compresses()) return LowRankParts::take_whole(results[0], gradient);
  at::Tensor& factor = sends_p() ? p_ : q_;
  factor.copy_(results[0].narrow(0, 0, factor.numel()));
  parts_.put_products(p_, q_, gradient);
  parts_.take_plain(factor.numel(), results[0], gradient);
  ++steps_;
}

void AcpSgdCoder::export_state(NamedState& state) const {
  memory_.export_state(state);
  state.scalars[kAlternations] = steps_;
  export_values(sends_p() ? kFactorQ : kFactorP, sends_p() ? q_ : p_, state);
}

void AcpSgdCoder::import_state(const NamedState& state) {
  memory_.import_state(state);
  steps_ = state.integer(kAlternations);
  import_values(sends_p() ? kFactorQ : kFactorP, state, sends_p() ? q_ : p_);
}

}  // namespace mlbench::compress
