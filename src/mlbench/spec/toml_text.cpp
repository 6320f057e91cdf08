#include "mlbench/spec/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/text_blocks.h"

namespace mlbench::spec {

namespace {

// Finds how deep a document is, statement by statement. Up to the first mistake in the grammar, where the parser stops,
// this class sees the same structure as the parser.
class TomlDepth {
 public:
  explicit TomlDepth(std::string_view text) : text_(text) {}

  // The offset at which the document becomes too deep; empty when it does not.
  std::optional<size_t> find_fault() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c == '"' || c == '\'') {
        skip_string(c);
        fresh_ = false;
      } else {
        take(c);
      }
      if (depth() > kDeepestNesting) return at_;
    }
    return std::nullopt;
  }

 private:
  size_t depth() const { return header_ + outer_ + parts_ + in_header_; }

  void take(char c) {
    switch (c) {
      case '\n':
        if (open_.empty()) {
          if (in_header_ != 0) header_ = parts_ + in_header_;
          in_header_ = parts_ = 0;
          fresh_ = true;
        }
        return;
      case '.':
        ++parts_;
        break;
      case ',':
        parts_ = 0;
        break;
      case '[':
        if (fresh_ || (in_header_ == 1 && parts_ == 0 && text_[at_ - 1] == '[')) {
          if (fresh_) header_ = 0;
          ++in_header_;  // [a] is one deep, [[a]] two
          break;
        }
        [[fallthrough]];
      case '{':
        open_.push_back(parts_ + 1);
        outer_ += open_.back();
        parts_ = 0;
        break;
      case ']':
      case '}':
        if (in_header_ != 0 || open_.empty()) break;
        parts_ = 0;
        outer_ -= open_.back();
        open_.pop_back();
        break;
      case ' ':
      case '\t':
      case '\r':
        return;
      default:
        break;
    }
    fresh_ = false;
  }

  // Goes to the last quote of a string. A string of a single line ends with the line at the latest.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool long_one = text_.substr(at_, 3) == three;
    for (at_ += long_one ? 3 : 1; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\' && quote == '"') {
        ++at_;
      } else if (long_one && text_.substr(at_, 3) == three) {
        at_ += 2;
        // Up to two quotes before the last three belong to the text.
        for (int more = 0; more < 2 && at_ + 1 < text_.size() && text_[at_ + 1] == quote; ++more) ++at_;
        return;
      } else if (!long_one && (c == quote || c == '\n')) {
        if (c == '\n') --at_;
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool fresh_ = true;         // nothing of this line's statement was seen yet
  size_t header_ = 0;         // depth of the table that the statement is in
  size_t in_header_ = 0;      // brackets of the header that is being read
  size_t parts_ = 0;          // dots of the key that is being read or whose value is
  std::vector<size_t> open_;  // what each open bracket adds to the depth: itself and the key whose value it begins
  size_t outer_ = 0;          // sum of open_
};

std::string position_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line_start = before.rfind('\n') + 1;  // 0 where there is none
  return fmt::format("{}:{}", std::count(before.begin(), before.end(), '\n') + 1, at - line_start + 1);
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& file, const Input& input) {
  if (text.size() > input.most_bytes) refuse_size(file, text.size(), input);
  text = TextBlocks(file).take(text);
  if (const auto fault = TomlDepth(text).find_fault()) {
    throw UserError(fmt::format("{}:{}: nested deeper than {} (brackets, tables and parts of dotted keys)", file,
                                position_of(text, *fault), kDeepestNesting));
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const auto where = error.source().begin;
    throw UserError(
        fmt::format("{}:{}:{}: {}", file, std::max(where.line, 1U), std::max(where.column, 1U), error.description()));
  }
}

}  // namespace mlbench::spec
