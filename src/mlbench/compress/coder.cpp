#include "mlbench/compress/coder.h"

#include "mlbench/base/choices.h"
#include "mlbench/compress/half.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/power_sgd.h"
#include "mlbench/compress/qsgd.h"
#include "mlbench/compress/sign.h"
#include "mlbench/compress/sparse.h"

namespace mlbench::compress {

namespace {

MakeCoder read_identity(OptionReader&) {
  return [](const CoderContext& context) { return std::make_unique<IdentityCoder>(context.layout); };
}

constexpr Range kShares{1e-9, 1};
constexpr Range kCodeBits{2, 8};
constexpr Range kBuckets{1, 1 << 20};
constexpr Range kRanks{1, 4096};
constexpr Range kSteps{0, 1e12};
constexpr Range kFactors{1, 1e6};

SparseOptions read_sparse(OptionReader& options) {
  SparseOptions sparse;
  sparse.share = options.number("share", sparse.share, kShares);
  sparse.error_feedback = options.flag("error_feedback", sparse.error_feedback);
  return sparse;
}

MakeCoder read_top_k(OptionReader& options) {
  return [sparse = read_sparse(options)](const CoderContext& context) {
    return std::make_unique<TopKCoder>(sparse, context);
  };
}

template <RandomPart kPart>
MakeCoder read_random(OptionReader& options) {
  return [sparse = read_sparse(options)](const CoderContext& context) {
    return std::make_unique<RandomCoder>(kPart, sparse, context);
  };
}

template <SignScale kScale>
MakeCoder read_sign(OptionReader&) {
  return [](const CoderContext& context) { return std::make_unique<SignCoder>(kScale, context); };
}

MakeCoder read_qsgd(OptionReader& options) {
  QsgdOptions qsgd;
  qsgd.bits = static_cast<int>(options.integer("bits", qsgd.bits, kCodeBits));
  qsgd.bucket = options.integer("bucket", qsgd.bucket, kBuckets);
  const std::string norm = options.text("norm", "largest");
  check_choice("norm", norm, {"largest", "euclidean"});
  qsgd.largest = norm == "largest";
  return [qsgd](const CoderContext& context) { return std::make_unique<QsgdCoder>(qsgd, context); };
}

MakeCoder read_half(OptionReader& options) {
  HalfOptions half;
  const std::string type = options.text("type", "bfloat16");
  check_choice("type", type, {"bfloat16", "float16"});
  half.type = type == "bfloat16" ? at::kBFloat16 : at::kHalf;
  half.error_feedback = options.flag("error_feedback", half.error_feedback);
  return [half](const CoderContext& context) { return std::make_unique<HalfCoder>(half, context); };
}

MakeCoder read_power_sgd(OptionReader& options) {
  PowerSgdOptions power;
  power.rank = options.integer("rank", power.rank, kRanks);
  power.error_feedback = options.flag("error_feedback", power.error_feedback);
  power.warm_start = options.flag("warm_start", power.warm_start);
  power.start_step = options.integer("compression_start", power.start_step, kSteps);
  power.min_compression = options.number("min_compression", power.min_compression, kFactors);
  return [power](const CoderContext& context) { return std::make_unique<PowerSgdCoder>(power, context); };
}

struct Row {
  const char* name;
  MakeCoder (*read)(OptionReader& options);
};
constexpr Row kCoders[] = {
    {"none", read_identity},
    {"half", read_half},
    {"top_k", read_top_k},
    {"random_k", read_random<RandomPart::kElements>},
    {"random_block", read_random<RandomPart::kBlock>},
    {"sign_vote", read_sign<SignScale::kNone>},
    {"ef_sign", read_sign<SignScale::kMeanMagnitude>},
    {"one_bit", read_sign<SignScale::kMeanOfEachSign>},
    {"qsgd", read_qsgd},
    {"power_sgd", read_power_sgd},
};

}  // namespace

std::vector<std::string> coder_names() { return names_of(kCoders); }

MakeCoder read_coder(const std::string& name, OptionReader& options) {
  return row_named(kCoders, "compression", name).read(options);
}

}  // namespace mlbench::compress
