// Translations of given sentences by stored weights, without a run around them: beside CTranslate2, through
// bench/ctranslate2_peer.py.
//   decode_bench --task NAME|FILE --model FILE.safetensors --sources FILE --output FILE [--size full|small|tiny]
//     [--batch N] [--threads N] [--framework NAME]
// Sources: ids of a sentence per line, without its end. They are sorted by length. After one batch to warm up, batches
// are searched with the longest sentences first, a batch for each thread where the framework can do so. Writes per line
// of the sources {"tokens": ids of the best translation, "score": its score}; prints the seconds of all searches.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/input.h"
#include "mlbench/catalog/worker/frameworks.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"
#include "mlbench/train/beam_search.h"
#include "mlbench/train/snapshot.h"

namespace mlbench {
namespace {

struct Options {
  std::string task, model, sources, output, size, length_penalty, framework = "torch";
  int64_t batch = 64;
  int threads = 2;
};

using Sentence = std::vector<int64_t>;

spec::TaskSpec read_task(const Options& options) {
  std::vector<spec::Override> overrides;
  if (!options.size.empty()) overrides.push_back({"model.size", options.size});
  if (!options.length_penalty.empty()) overrides.push_back({"decoding.length_penalty", options.length_penalty});
  if (!options.task.ends_with(".toml")) return spec::find_task(options.task, "", "", overrides).task;
  return spec::parse_task({options.task, read_file(options.task, inputs::kTaskFile)}, "", overrides).task;
}

std::vector<Sentence> read_sources(const std::string& file, int64_t vocabulary) {
  std::ifstream in(file);
  std::vector<Sentence> sentences;
  for (std::string line; std::getline(in, line);) {
    Sentence sentence;
    std::istringstream ids(line);
    for (int64_t id = 0; ids >> id;) sentence.push_back(id);
    const bool right = ids.eof() && std::ranges::all_of(sentence, [&](int64_t id) {
                         return id >= 0 && id < vocabulary && id != dataset::kPad;
                       });
    if (!right) {
      throw UserError(fmt::format("{}:{}: expected ids from 1 to {} with blanks between them", file,
                                  sentences.size() + 1, vocabulary - 1));
    }
    sentence.push_back(dataset::kEnd);
    sentences.push_back(std::move(sentence));
  }
  if (!in.eof()) throw IoError("cannot read " + file);
  if (sentences.empty()) throw UserError(file + ": no sentences");
  return sentences;
}

struct SourceBatch {
  std::vector<int64_t> ids, lengths;
  BatchView view;
};

void fill(SourceBatch& batch, const std::vector<Sentence>& sentences, std::span<const size_t> chosen) {
  size_t longest = 0;
  for (const size_t i : chosen) longest = std::max(longest, sentences[i].size());
  batch.ids.assign(chosen.size() * longest, dataset::kPad);
  batch.lengths.clear();
  for (size_t row = 0; row < chosen.size(); ++row) {
    const Sentence& sentence = sentences[chosen[row]];
    std::ranges::copy(sentence, batch.ids.begin() + static_cast<std::ptrdiff_t>(row * longest));
    batch.lengths.push_back(std::ssize(sentence));
  }
  const auto count = std::ssize(chosen);
  batch.view.samples = count;
  batch.view.tensors = {
      {"source", {count, static_cast<int64_t>(longest)}, const_view_of(std::span<const int64_t>(batch.ids)), {}},
      {"source_lengths", {count}, const_view_of(std::span<const int64_t>(batch.lengths)), {}}};
}

void write(const std::string& file, const std::vector<train::Hypothesis>& best) {
  std::ofstream out(file);
  for (const train::Hypothesis& one : best) {
    out << Json{{"tokens", one.tokens}, {"score", std::isfinite(one.score) ? Json(one.score) : Json()}}.dump() << "\n";
  }
  out.flush();
  if (!out.good()) throw IoError("cannot write " + file);
}

void run(const Options& chosen) {
  const spec::TaskSpec task = read_task(chosen);
  framework::FrameworkOptions options;
  options.model = models::describe_model(task);
  options.threads = chosen.threads;
  if (auto cores = allowed_cores(); std::ssize(cores) >= chosen.threads) {
    options.cores.assign(cores.begin(), cores.begin() + chosen.threads);
  }
  const auto framework = catalog::make_framework({"decode_bench", catalog::frameworks()}, chosen.framework, options);
  train::import_averaged_model(checkpoint::read_safetensors(chosen.model), *framework);
  const std::vector<Sentence> sentences = read_sources(chosen.sources, task.data.classes);

  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return sentences[i].size(); });
  const auto batch_size = static_cast<size_t>(chosen.batch);
  std::vector<SourceBatch> memory((order.size() + batch_size - 1) / batch_size);
  std::vector<BatchView> batches;
  for (size_t first = 0; first < order.size(); first += batch_size) {
    SourceBatch& batch = memory[batches.size()];
    fill(batch, sentences, std::span(order).subspan(first, std::min(batch_size, order.size() - first)));
    batches.push_back(batch.view);
  }
  const train::SearchOptions search{.decoding = task.decoding};
  train::search(*framework, std::span(batches).first(1), search);
  std::ranges::reverse(batches);
  const auto begin = std::chrono::steady_clock::now();
  auto found = train::search(*framework, batches, search);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::ranges::reverse(found);
  std::vector<train::Hypothesis> best(sentences.size());
  for (size_t place = 0; place < order.size(); ++place) {
    best[order[place]] = std::move(found[place / batch_size][place % batch_size].front());
  }
  write(chosen.output, best);
  fmt::print("{}\n", Json{{"seconds", took.count()},
                          {"beam", task.decoding.beam},
                          {"batch", chosen.batch},
                          {"threads", chosen.threads},
                          {"effective", framework->effective()}}
                         .dump());
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  mlbench::keep_freed_memory();
  CLI::App app("Translations by stored weights", "decode_bench");
  mlbench::Options options;
  app.add_option("--task", options.task, "a name, or a task file")->required();
  app.add_option("--model", options.model)->required();
  app.add_option("--sources", options.sources)->required();
  app.add_option("--output", options.output)->required();
  app.add_option("--size", options.size, "of the model; default: the task's")
      ->check(CLI::IsMember({"full", "small", "tiny"}));
  app.add_option("--length-penalty", options.length_penalty, "default: the task's");
  app.add_option("--framework", options.framework);
  app.add_option("--batch", options.batch)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    mlbench::run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "decode_bench: {}\n", error.what());
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
