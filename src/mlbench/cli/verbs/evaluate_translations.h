#pragma once

// `mlbench evaluate --translations` scores text files, which needs no task.

#include <string>
#include <vector>

#include "mlbench/base/errors.h"

namespace CLI {
class App;
}

namespace mlbench::cli {

struct Context;

struct TranslationFlags {
  std::vector<std::string> translations, references;  // files
  std::vector<std::string> metrics = {"bleu", "chrf"};
  std::string tokenize = "13a", smooth = "exp", resamples = "1000";
  bool lowercase = false;
};

void add_translation_options(CLI::App& verb, TranslationFlags& flags);

// Whether the parsed verb is to evaluate translations. Throws UserError where options of both kinds were given.
bool are_translations(const CLI::App& verb, const TranslationFlags& flags);

ExitCode evaluate_translations(const Context& context, const TranslationFlags& flags);

}  // namespace mlbench::cli
