#include "mlbench/framework/framework.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

void refuse_outputs(const models::ModelDescription& model) {
  throw UserError(
      fmt::format("model '{}' has no outputs per sample: its loss is over tokens; metrics of it: loss, perplexity, "
                  "BLEU",
                  model.name));
}

std::unique_ptr<Decoder> Framework::make_decoder() {
  throw UserError("framework '" + effective().at("name").get<std::string>() +
                  "' writes no sequences of this model; decoding takes the models gnmt and transformer, --framework "
                  "torch or native");
}

void Framework::decode(int64_t /*most*/, const DecoderWork& work) { work(*make_decoder()); }

}  // namespace mlbench::framework
