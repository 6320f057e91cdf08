#include "mlbench/train/vocabulary_texts.h"

#include <utility>

namespace mlbench::train {

VocabularyTexts::VocabularyTexts(std::shared_ptr<const dataset::text::PreparedText> prepared, const std::string& split)
    : prepared_(std::move(prepared)), references_(prepared_->references(split)) {}

}  // namespace mlbench::train
