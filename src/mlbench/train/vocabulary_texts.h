#pragma once

// The texts of an evaluation split as prepared text has them (dataset/text/): its vocabulary, and the reference lines
// beside it.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/train/translation_evaluation.h"

namespace mlbench::train {

class VocabularyTexts final : public TranslationTexts {
 public:
  // UserError where the split has no references.
  VocabularyTexts(std::shared_ptr<const dataset::text::PreparedText> prepared, const std::string& split);

  std::string text_of(std::span<const int64_t> ids) const override { return prepared_->vocabulary().text(ids); }
  int64_t sentences() const override { return std::ssize(references_); }
  const std::string& reference(int64_t sentence) const override {
    return references_.at(static_cast<size_t>(sentence));
  }

 private:
  std::shared_ptr<const dataset::text::PreparedText> prepared_;
  std::vector<std::string> references_;
};

}  // namespace mlbench::train
