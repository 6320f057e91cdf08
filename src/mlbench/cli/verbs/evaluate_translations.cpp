#include "mlbench/cli/verbs/evaluate_translations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "mlbench/base/choices.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/context.h"
#include "mlbench/metrics/translations.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::cli {

namespace {

constexpr const char* kTranslations = "Translations";
constexpr Range kResampleRange{100, 1'000'000};

std::string path_text(const std::filesystem::path& path) { return printable(path.string()); }

Json translations_json(const metrics::TranslationScores& result, const TranslationFlags& flags,
                       const metrics::BootstrapOptions& bootstrap) {
  Json systems = Json::array();
  for (const auto& system : result.systems) {
    Json scores = Json::array();
    for (size_t m = 0; m < system.scores.size(); ++m) {
      const auto& score = system.scores[m];
      Json row = {
          {"metric", score.metric}, {"name", score.name}, {"score", score.score}, {"signature", score.signature}};
      row.update(score.parts);
      if (!system.differences.empty()) {
        const metrics::PairedDifference& than = system.differences[m];
        row["difference"] = {
            {"value", than.difference}, {"low", than.low}, {"high", than.high}, {"p_value", than.p_value}};
      }
      scores.push_back(std::move(row));
    }
    systems.push_back({{"path", system.file.string()}, {"scores", scores}});
  }
  Json json = {{"kind", "translations"},
               {"sentences", result.sentences},
               {"references", flags.references},
               {"systems", systems},
               {"bootstrap", nullptr}};
  if (result.systems.size() > 1) {
    json["bootstrap"] = {{"baseline", result.systems.front().file.string()},
                         {"resamples", bootstrap.resamples},
                         {"seed", bootstrap.seed},
                         {"interval", 0.95}};
  }
  return json;
}

std::string translations_text(const metrics::TranslationScores& result, const TranslationFlags& flags,
                              const metrics::BootstrapOptions& bootstrap) {
  std::string out =
      fmt::format("translations: {} sentences, {} each\n", report::format_count(static_cast<int64_t>(result.sentences)),
                  counted(std::ssize(flags.references), "reference"));
  const auto& first = result.systems.front();
  size_t width = 0;
  for (const auto& score : first.scores) width = std::max(width, score.name.size());
  for (const auto& system : result.systems) {
    out += path_text(system.file) + "\n";
    for (const auto& score : system.scores) {
      out += fmt::format("  {:<{}}  {:5.2f}{}{}\n", score.name, width, score.score, score.verbose.empty() ? "" : "  ",
                         score.verbose);
    }
    if (system.differences.empty()) continue;
    out += fmt::format("  less {}: paired bootstrap, {} resamples, seed {}, 95 % interval\n", path_text(first.file),
                       report::format_count(bootstrap.resamples), bootstrap.seed);
    for (size_t m = 0; m < system.differences.size(); ++m) {
      const metrics::PairedDifference& than = system.differences[m];
      out += fmt::format("  {:<{}}  {:+.2f}  [{:+.2f}, {:+.2f}]  p = {:.4f}\n", system.scores[m].name, width,
                         than.difference, than.low, than.high, than.p_value);
    }
  }
  out += "signatures\n";
  for (const auto& score : first.scores) out += fmt::format("  {:<{}}  {}\n", score.name, width, score.signature);
  return out;
}

}  // namespace

void add_translation_options(CLI::App& verb, TranslationFlags& flags) {
  verb.add_option("--translations", flags.translations,
                  "translations of a system, one sentence per line; each further file is compared with the first")
      ->type_name("FILE")
      ->group(kTranslations);
  verb.add_option("--references", flags.references, "what they should be; several files: several references of each")
      ->type_name("FILE")
      ->group(kTranslations);
  verb.add_option("--metrics", flags.metrics,
                  fmt::format("some of {} (default: {})", fmt::join(metrics::text_metric_names(), ", "),
                              fmt::join(flags.metrics, ",")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->group(kTranslations);
  verb.add_option("--tokenize", flags.tokenize,
                  fmt::format("of BLEU: {} (default: {})", fmt::join(metrics::tokenizer_names(), ", "), flags.tokenize))
      ->type_name("NAME")
      ->group(kTranslations);
  verb.add_flag("--lowercase", flags.lowercase, "case does not matter")->group(kTranslations);
  verb.add_option("--smooth", flags.smooth, "of BLEU: exp, floor[=VALUE], add-k[=VALUE], none (default: exp)")
      ->type_name("METHOD")
      ->group(kTranslations);
  verb.add_option(
          "--resamples", flags.resamples,
          fmt::format("of the bootstrap between systems ({}; default: {})", to_text(kResampleRange), flags.resamples))
      ->type_name("N")
      ->group(kTranslations);
}

bool are_translations(const CLI::App& verb, const TranslationFlags& flags) {
  const bool translations = !flags.translations.empty();
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--json" || name == "--home") continue;
    const bool of_translations = option->get_group() == kTranslations;
    if (of_translations == translations) continue;
    throw UserError(translations ? fmt::format("{} is for models and predictions: translations (--translations) need "
                                               "no task, only --references FILE",
                                               name)
                                 : fmt::format("{} is for translations: give --translations FILE, too", name));
  }
  return translations;
}

ExitCode evaluate_translations(const Context& context, const TranslationFlags& flags) {
  if (flags.references.empty()) {
    throw UserError("there is nothing to compare the translations with: give --references FILE");
  }
  metrics::TranslationOptions options;
  options.metrics = flags.metrics;
  for (const std::string& name : flags.metrics) check_choice("metric", name, metrics::text_metric_names());
  check_choice("tokenizer", flags.tokenize, metrics::tokenizer_names());
  options.metric.tokenizer = metrics::tokenizer_named(flags.tokenize);
  options.metric.smoothing = metrics::smoothing_of(flags.smooth);
  options.metric.lowercase = flags.lowercase;
  options.bootstrap.resamples = parse_count(flags.resamples, "--resamples", kResampleRange);
  const std::vector<std::filesystem::path> systems(flags.translations.begin(), flags.translations.end());
  const std::vector<std::filesystem::path> references(flags.references.begin(), flags.references.end());
  const auto result = metrics::score_translations(systems, references, options);
  if (context.json) {
    print_json(translations_json(result, flags, options.bootstrap));
  } else {
    print(translations_text(result, flags, options.bootstrap));
  }
  return ExitCode::kOk;
}

}  // namespace mlbench::cli
