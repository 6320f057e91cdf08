// One parser (MLBENCH_FUZZ_PARSER) on what libFuzzer makes of its seeds, which go to the folder MLBENCH_FUZZ_CORPUS
// first. A parser may refuse with the errors of its contract; any other exception, a hang, a leak or an error that the
// sanitizers see is a finding, whose input libFuzzer writes beside the corpus.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "mlbench/base/errors.h"
#include "tests/fuzz/parsers.h"

namespace {
const mlbench::Parser* chosen = nullptr;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("MLBENCH_FUZZ_PARSER");
  const char* corpus = std::getenv("MLBENCH_FUZZ_CORPUS");
  chosen = mlbench::find_parser(name != nullptr ? name : "");
  if (chosen == nullptr || corpus == nullptr) {
    std::fputs("fuzz_parsers: MLBENCH_FUZZ_PARSER names a parser, MLBENCH_FUZZ_CORPUS a folder; parsers:", stderr);
    for (const mlbench::Parser& parser : mlbench::parsers()) std::fprintf(stderr, " %s", parser.name);
    std::fputs("\n", stderr);
    std::exit(2);
  }
  const std::vector<std::string> seeds = chosen->seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::filesystem::path file = std::filesystem::path(corpus) / fmt::format("seed-{}", i);
    std::ofstream out(file, std::ios::binary);
    out << seeds[i];
    out.flush();
    MLBENCH_CHECK(out.good(), "cannot write " + file.string());
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mlbench::try_parser(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
