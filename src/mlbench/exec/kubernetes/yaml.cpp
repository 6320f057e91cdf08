#include "mlbench/exec/kubernetes/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"

namespace mlbench::exec::kubernetes {
namespace {

constexpr size_t kMostValues = 100'000;

Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto number = to_number<int64_t>(text)) return *number;
  // "1.5", "2e3"; not "inf" and "nan", which JSON has not.
  if (text.find_first_not_of("+-.0123456789eE") == std::string::npos) {
    if (const auto number = to_number<double>(text)) return *number;
  }
  return text;
}

class Converter {
 public:
  explicit Converter(std::string file) : file_(std::move(file)) {}

  Json convert(const YAML::Node& node, size_t depth) {
    if (depth > kDeepestNesting) fail(node, fmt::format("is nested deeper than {}", kDeepestNesting));
    if (++values_ > kMostValues) fail(node, fmt::format("has more than {} values", kMostValues));
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence: {
        Json list = Json::array();
        for (const YAML::Node& element : node) list.push_back(convert(element, depth + 1));
        return list;
      }
      case YAML::NodeType::Map: {
        Json object = Json::object();
        for (const auto& member : node) {
          if (!member.first.IsScalar()) fail(member.first, "has a key that is no text");
          const std::string& key = member.first.Scalar();
          if (object.contains(key)) fail(member.first, fmt::format("has '{}' twice", key));
          object[key] = convert(member.second, depth + 1);
        }
        return object;
      }
      default:
        return nullptr;
    }
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw UserError(fmt::format("{}:{}: it {}", file_, node.Mark().line + 1, what));
  }

  const std::string file_;
  size_t values_ = 0;
};

}  // namespace

Json parse_yaml(std::string_view text, const Input& input, const std::string& file) {
  if (text.size() > input.most_bytes) refuse_size(file, text.size(), input);
  // YAML allows none of them. After a form feed within a list yaml-cpp would go on without end.
  if (has_control_character(text, "\n\t\r")) throw UserError(fmt::format("{}: it holds control characters", file));
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      throw UserError(fmt::format("{}: it holds {} documents; expected one", file, documents.size()));
    }
    return documents.empty() ? Json(nullptr) : Converter(file).convert(documents.front(), 1);
  } catch (const YAML::Exception& error) {
    throw UserError(fmt::format("{}:{}: it is no YAML: {}", file, error.mark.line + 1, error.msg));
  }
}

}  // namespace mlbench::exec::kubernetes
