#include "mlbench/framework/framework.h"

#include "mlbench/base/errors.h"

namespace mlbench::framework {

std::unique_ptr<Decoder> Framework::make_decoder() {
  throw UserError(
      "framework '" + effective().at("name").get<std::string>() +
      "' writes no sequences of this model; decoding takes the models gnmt and transformer, and --framework "
      "torch");
}

}  // namespace mlbench::framework
