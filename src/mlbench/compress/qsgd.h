#pragma once

// "qsgd": stochastic quantisation (Alistarh et al. 2017, section 3). Each tensor is divided into buckets of `bucket`
// elements. Of a bucket v with the norm |v| (Euclidean, or the largest magnitude), an element becomes
// |v| * sign(v_i) * l / s, where s = 2^(bits - 1) - 1 and l is one of the two whole numbers around s * |v_i| / |v|.
// l is drawn so that the expectation is v_i. What comes out is the sum over ranks, without bias. Draws are a function
// of (seed, rank, step, element).
//
// Gathered, by the coding:
//   fixed   of each bucket 4 bytes, its norm, and bits / 8 per element, together rounded up to bytes
//   elias   4 bytes per bucket, its norm; then one string of bits, rounded up to bytes
// In the string, a bucket is what the paper makes of a vector. Of each l that is not 0 there are three parts: the
// distance to it from the one before (of the first, from the place in front of the bucket), a bit that is 1 where the
// element is negative, and l. Distance and l are Elias codes (elias_codes.h). Where the last element is 0, the distance
// to the place behind the bucket follows; the paper needs none, since its string ends there. The bytes depend on the
// gradient, and the ranks exchange the lengths first. Both codings give the same sums, to the bit.

#include "mlbench/compress/coder.h"

namespace mlbench::compress {

struct QsgdOptions {
  int bits = 4;          // of an element, sign included: 2 to 8
  int64_t bucket = 512;  // elements
  bool largest = true;   // the norm is the largest magnitude; else the Euclidean one
  bool elias = false;    // the coding; else fixed
  double clip = 0;       // elements are clipped at so many standard deviations of their bucket (terngrad.h); 0: none is
};

class QsgdCoder : public GradientCoder {
 public:
  QsgdCoder(const QsgdOptions& options, const CoderContext& context);
  std::string name() const override { return "qsgd"; }
  bool one_collective() const override { return !options_.elias; }
  bool decodes_alone() const override { return !options_.elias; }
  bool adds_payloads() const override { return !options_.elias; }
  // Empty with the coding elias.
  std::optional<uint64_t> bytes_per_step() const override;
  void begin(const StepContext& step) override { step_ = step.step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;

 private:
  // With the coding fixed, a bucket's norm, then its packed elements, begin at `payload` in the bytes. A bucket lies in
  // one tensor.
  struct Bucket {
    int64_t offset = 0, count = 0, payload = 0;
  };

  int levels() const { return (1 << (options_.bits - 1)) - 1; }
  // Draws 2 l + (1 where the element is negative) of each element into `codes`; returns the norm.
  float quantise(const Bucket& bucket, const float* values, uint64_t key, uint8_t* codes) const;
  at::Tensor encode_fixed(const float* values, uint64_t key) const;
  at::Tensor encode_elias(const float* values, uint64_t key) const;
  void add_fixed(std::span<const at::Tensor> results, float* sums) const;
  void add_elias(const at::Tensor& result, float* sums) const;

  QsgdOptions options_;
  uint64_t seed_;
  int rank_;
  std::vector<Bucket> buckets_;
  int64_t payload_bytes_ = 0;
  int64_t step_ = 0;
};

}  // namespace mlbench::compress
