#include "mlbench/framework/torch/dropout_on_gpu.h"

#include <ATen/cuda/jiterator.h>

#include <cmath>

namespace mlbench::framework::torch_framework {

namespace {

// The source of a kernel, which LibTorch has the GPU's compiler translate once. It computes element i from
// Philox4x32-10 of counter i / 4, in which i % 4 selects the word. Numbers are double, as float does not represent all
// integers above 2^24.
constexpr const char* kMask = R"(
template <typename T> T dropout_mask(T i, T key_low, T key_high, T threshold, T scale) {
  const unsigned long long element = i, counter = element / 4;
  unsigned int c0 = counter, c1 = counter >> 32, c2 = 0, c3 = 0;
  unsigned int k0 = key_low, k1 = key_high;
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0;
    c1 = (unsigned int)p1;
    c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1;
    c3 = (unsigned int)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const int place = element % 4;
  const unsigned int word = place == 0 ? c0 : place == 1 ? c1 : place == 2 ? c2 : c3;
  return word >= threshold ? scale : T(0);
}
)";

}  // namespace

at::Tensor dropout_mask_on_gpu(uint64_t key, double p, at::IntArrayRef shape, const at::Device& device) {
  const auto low = static_cast<double>(key & 0xFFFFFFFF), high = static_cast<double>(key >> 32);
  const auto scale = static_cast<double>(static_cast<float>(1 / (1 - p)));
  const at::Tensor elements = at::arange(c10::multiply_integers(shape), at::TensorOptions(at::kDouble).device(device));
  return at::cuda::CompileAndLaunchKernel(kMask, "dropout_mask", 1, {elements},
                                          {low, high, std::ceil(p * 0x1.0p32), scale}, false)[0]
      .to(at::kFloat)
      .view(shape);
}

}  // namespace mlbench::framework::torch_framework
