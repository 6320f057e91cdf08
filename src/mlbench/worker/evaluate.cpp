#include "mlbench/worker/evaluate.h"

#include <cstdio>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/log.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/train/stored_model.h"
#include "mlbench/worker/failure.h"
#include "mlbench/worker/ingredients.h"

namespace mlbench::worker {

int evaluate(const catalog::WorkerProgram& program, const std::filesystem::path& model, int64_t average,
             const std::filesystem::path& spec_file) {
  set_up_logging("evaluate");
  Json answer;
  int exit_code = 0;
  try {
    const spec::RunSpec run = spec::read_run_spec(spec_file);
    answer = train::evaluate_stored(model, average, run, *make_framework(program, run, 0, 0),
                                    [&] { return prepare_data(run); });
  } catch (const std::exception& error) {
    answer = {{"error", message_of(error)}};
    exit_code = static_cast<int>(exit_code_of(error));
  }
  std::puts(answer.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  return exit_code;
}

}  // namespace mlbench::worker
