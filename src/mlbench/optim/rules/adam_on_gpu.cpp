#include "mlbench/optim/rules/adam_on_gpu.h"

#include <ATen/cuda/jiterator.h>

#include <string>

namespace mlbench::optim {

namespace {

// The GPU's compiler compiles these texts; LibTorch calls each function once per element. __fmul_rn and the like are
// never contracted.
const std::string kFirstMoment = R"(
template <typename T> T first_moment(T m, T g, T p, T scale, T decay, T beta, T share) {
  T d = __fmul_rn(g, scale);
  if (decay != 0) d = __fadd_rn(d, __fmul_rn(p, decay));
  return __fadd_rn(__fmul_rn(m, beta), __fmul_rn(d, share));
}
)";
const std::string kSecondMoment = R"(
template <typename T> T second_moment(T v, T g, T p, T scale, T decay, T beta, T share) {
  T d = __fmul_rn(g, scale);
  if (decay != 0) d = __fadd_rn(d, __fmul_rn(p, decay));
  return __fadd_rn(__fmul_rn(v, beta), __fmul_rn(__fmul_rn(d, d), share));
}
)";
const std::string kParameter = R"(
template <typename T> T parameter(T p, T m, T v, T correction, T eps, T step_size) {
  const T root = __fdiv_rn(__fsqrt_rn(v), correction);
  return __fsub_rn(p, __fmul_rn(__fdiv_rn(m, __fadd_rn(root, eps)), step_size));
}
)";

at::Tensor run(const std::string& code, const std::string& name, const c10::SmallVector<at::Tensor>& tensors,
               const c10::SmallVector<at::Scalar>& numbers) {
  return at::cuda::CompileAndLaunchKernel(code, name, 1, tensors, numbers, false)[0];
}

}  // namespace

void adam_on_gpu(const AdamPart& part, const AdamCoefficients& c) {
  const at::Tensor &p = part.parameters, &g = part.gradients, &m = part.exp_avg, &v = part.exp_avg_sq;
  // Converting float to double and back is exact.
  const at::Tensor first =
      run(kFirstMoment, "first_moment", {m, g, p},
          {double{c.gradient_scale}, double{c.weight_decay}, double{c.beta1}, double{c.new_share1}});
  const at::Tensor second =
      run(kSecondMoment, "second_moment", {v, g, p},
          {double{c.gradient_scale}, double{c.weight_decay}, double{c.beta2}, double{c.new_share2}});
  const at::Tensor updated =
      run(kParameter, "parameter", {p, first, second}, {double{c.correction2}, double{c.eps}, double{c.step_size}});
  m.copy_(first);
  v.copy_(second);
  p.copy_(updated);
}

}  // namespace mlbench::optim
