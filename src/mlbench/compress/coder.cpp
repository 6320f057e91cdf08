#include "mlbench/compress/coder.h"

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/compress/acp_sgd.h"
#include "mlbench/compress/deep_gradient.h"
#include "mlbench/compress/ef21.h"
#include "mlbench/compress/half.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/natural.h"
#include "mlbench/compress/power_sgd.h"
#include "mlbench/compress/qsgd.h"
#include "mlbench/compress/rows.h"
#include "mlbench/compress/sign.h"
#include "mlbench/compress/sparse.h"
#include "mlbench/compress/terngrad.h"

namespace mlbench::compress {

namespace {

MakeCoder read_identity(OptionReader&) {
  return [](const CoderContext& context) { return std::make_unique<IdentityCoder>(context.layout); };
}

constexpr Range kShares{1e-9, 1};
constexpr Range kCodeBits{2, 8};
constexpr Range kBuckets{1, 1 << 20};
constexpr Range kChunks{0, 1 << 20};
constexpr Range kValueBits{0, 8};
constexpr Range kRanks{1, 4096};
constexpr Range kSteps{0, 1e12};
constexpr Range kThresholds{1e-30, 1e30}, kThresholdsOrNone{0, 1e30};
constexpr Range kMomenta{0, 1};
constexpr Range kFactors{1, 1e6};
constexpr Range kDeviations{0, 1e6};

SparseOptions read_sparse(OptionReader& options) {
  SparseOptions sparse;
  sparse.share = options.number("share", sparse.share, kShares);
  sparse.error_feedback = options.flag("error_feedback", sparse.error_feedback);
  sparse.error_decay = options.number("error_decay", sparse.error_decay, kMomenta);
  if (!sparse.error_feedback && sparse.error_decay != 1) {
    throw UserError("error_decay with error_feedback false; expected error_feedback true, or no error_decay");
  }
  return sparse;
}

MakeCoder read_top_k(OptionReader& options) {
  TopKOptions top_k{read_sparse(options)};
  top_k.chunk = options.integer("chunk", top_k.chunk, kChunks);
  top_k.bits = options.integer("bits", top_k.bits, kValueBits);
  return [top_k](const CoderContext& context) { return std::make_unique<TopKCoder>(top_k, context); };
}

MakeCoder read_threshold(OptionReader& options) {
  ThresholdOptions threshold;
  threshold.threshold = options.number("threshold", threshold.threshold, kThresholds);
  threshold.error_feedback = options.flag("error_feedback", threshold.error_feedback);
  return [threshold](const CoderContext& context) { return std::make_unique<ThresholdCoder>(threshold, context); };
}

MakeCoder read_nonzero(OptionReader&) {
  return [](const CoderContext& context) { return std::make_unique<NonZeroCoder>(context); };
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
  qsgd.largest = options.choice("norm", "largest", {"largest", "euclidean"}) == "largest";
  qsgd.elias = options.choice("coding", "fixed", {"fixed", "elias"}) == "elias";
  return [qsgd](const CoderContext& context) { return std::make_unique<QsgdCoder>(qsgd, context); };
}

MakeCoder read_terngrad(OptionReader& options) {
  return [clip = options.number("clip_sigma", TernGradCoder::kClipSigma, kDeviations)](const CoderContext& context) {
    return std::make_unique<TernGradCoder>(clip, context);
  };
}

MakeCoder read_ef21(OptionReader& options) {
  return [share = options.number("share", 0.01, kShares)](const CoderContext& context) {
    return std::make_unique<Ef21Coder>(share, context);
  };
}

MakeCoder read_deep_gradient(OptionReader& options) {
  DeepGradientOptions deep;
  deep.share = options.number("share", deep.share, kShares);
  deep.momentum = options.number("coder_momentum", deep.momentum, kMomenta);
  deep.nesterov = options.flag("coder_nesterov", deep.nesterov);
  deep.clip = options.number("coder_clip", deep.clip, kThresholdsOrNone);
  deep.warmup_steps = options.integer("coder_warmup_steps", deep.warmup_steps, kSteps);
  return [deep](const CoderContext& context) { return std::make_unique<DeepGradientCoder>(deep, context); };
}

MakeCoder read_natural(OptionReader&) {
  return [](const CoderContext& context) { return std::make_unique<NaturalCoder>(context); };
}

MakeCoder read_int8(OptionReader& options) {
  const RowOptions rows{RowFormat::kInt8, options.flag("error_feedback", true)};
  return [rows](const CoderContext& context) { return std::make_unique<RowCoder>(rows, context); };
}

MakeCoder read_fp8(OptionReader& options) {
  const bool e4m3 = options.choice("type", "e4m3", {"e4m3", "e5m2"}) == "e4m3";
  const RowOptions rows{e4m3 ? RowFormat::kE4m3 : RowFormat::kE5m2, options.flag("error_feedback", true)};
  return [rows](const CoderContext& context) { return std::make_unique<RowCoder>(rows, context); };
}

MakeCoder read_fp4(OptionReader& options) {
  const RowOptions rows{RowFormat::kE3m0, options.flag("error_feedback", false)};
  return [rows](const CoderContext& context) { return std::make_unique<RowCoder>(rows, context); };
}

MakeCoder read_half(OptionReader& options) {
  HalfOptions half;
  const bool bfloat16 = options.choice("type", "bfloat16", {"bfloat16", "float16"}) == "bfloat16";
  half.type = bfloat16 ? at::kBFloat16 : at::kHalf;
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
  power.batched = options.flag("batched", power.batched);
  if (power.batched && power.min_compression != PowerSgdOptions{}.min_compression) {
    throw UserError("min_compression with batched true, which always compresses; expected no min_compression");
  }
  return [power](const CoderContext& context) { return std::make_unique<PowerSgdCoder>(power, context); };
}

MakeCoder read_acp_sgd(OptionReader& options) {
  AcpSgdOptions acp;
  acp.rank = options.integer("rank", acp.rank, kRanks);
  acp.error_feedback = options.flag("error_feedback", acp.error_feedback);
  acp.start_step = options.integer("compression_start", acp.start_step, kSteps);
  acp.min_compression = options.number("min_compression", acp.min_compression, kFactors);
  return [acp](const CoderContext& context) { return std::make_unique<AcpSgdCoder>(acp, context); };
}

struct Row {
  const char* name;
  MakeCoder (*read)(OptionReader& options);
  const char* sends;   // by each rank in a step; n: parameters
  const char* source;  // paper; names elsewhere are in spec/algorithm.cpp
};
constexpr Row kCoders[] = {
    {"none", read_identity, "the gradient, summed: 4 n bytes", ""},
    {"half", read_half, "the gradient in 16 bits, summed: 2 n bytes", ""},
    {"top_k", read_top_k, "the share of largest magnitude, gathered: 8 bytes per element, less by chunks",
     "Aji & Heafield 2017, Stich et al. 2018"},
    {"threshold", read_threshold, "elements above a threshold, gathered: 8 bytes per element",
     "Strom 2015, Dutta et al. 2020"},
    {"nonzero", read_nonzero,
     "elements that are not zero, gathered: 8 bytes per element, or the gradient where that is smaller",
     "Renggli et al. 2019, SparCML"},
    {"ef21", read_ef21, "the share where the gradient differs most from its estimate, gathered: 8 bytes per element",
     "Richtarik et al. 2021, EF21"},
    {"deep_gradient", read_deep_gradient, "the share of largest sums with momentum, gathered: 8 bytes per element",
     "Lin et al. 2018, DGC"},
    {"random_k", read_random<RandomPart::kElements>,
     "a random share, the same on all ranks, summed: 4 bytes per element", "Stich et al. 2018"},
    {"random_block", read_random<RandomPart::kBlock>, "a random share in one block, summed: 4 bytes per element",
     "Vogels et al. 2019, Random Block"},
    {"sign_vote", read_sign<SignScale::kNone>, "signs, gathered, of which the majority counts: n / 8 bytes",
     "Bernstein et al. 2019, signSGD with majority vote"},
    {"ef_sign", read_sign<SignScale::kMeanMagnitude>,
     "signs and the mean magnitude of each tensor, gathered: n / 8 bytes", "Karimireddy et al. 2019, EF-signSGD"},
    {"one_bit", read_sign<SignScale::kMeanOfEachSign>, "signs and two means of each tensor, gathered: n / 8 bytes",
     "Seide et al. 2014, 1-bit SGD"},
    {"qsgd", read_qsgd,
     "random levels of each bucket's norm, gathered: bits n / 8 bytes (or Elias codes) and 4 per bucket",
     "Alistarh et al. 2017, QSGD"},
    {"terngrad", read_terngrad,
     "of each tensor a scale, and 0 or the scale with its sign for each element, gathered: n / 4 bytes and 4 per "
     "tensor",
     "Wen et al. 2017, TernGrad"},
    {"natural", read_natural, "a random power of two of each element, gathered: 9 n / 8 bytes",
     "Horvath et al. 2019, natural compression"},
    {"int8", read_int8, "8-bit whole numbers and a scale of each row, gathered: n bytes and 4 per row",
     "Dettmers et al. 2022 (rows of LLM.int8)"},
    {"fp8", read_fp8, "8-bit floats and a scale of each row, gathered: n bytes and 4 per row",
     "Micikevicius et al. 2022"},
    {"fp4", read_fp4, "4-bit floats (e3m0) and a scale of each row, gathered: n / 2 bytes and 4 per row",
     "Douillard et al. 2025 (Streaming DiLoCo)"},
    {"power_sgd", read_power_sgd,
     "two low-rank factors of each matrix, summed: 4 rank (rows + columns) bytes; batched, of all as a square: "
     "8 rank sqrt(n)",
     "Vogels et al. 2019, PowerSGD"},
    {"acp_sgd", read_acp_sgd,
     "one of two low-rank factors of each matrix in turn, summed: 4 rank rows or 4 rank columns bytes",
     "Zhang et al. 2023, ACP-SGD"},
};

}  // namespace

Json list_coders() {
  Json rows = Json::array();
  for (const Row& row : kCoders) {
    const Json defaults = Json::object();
    OptionReader reader(row.name, defaults);
    const bool exact = row.read(reader)({FlatLayout(), 42, 0, 1})->exact();
    rows.push_back({{"name", row.name},
                    {"sends", row.sends},
                    {"source", row.source},
                    {"exact", exact},
                    {"options", options_asked_by(row.read)}});
  }
  return rows;
}

MakeCoder read_coder(const std::string& name, OptionReader& options) {
  return row_named(kCoders, "compression", name).read(options);
}

}  // namespace mlbench::compress
