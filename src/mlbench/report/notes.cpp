#include "mlbench/report/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"

namespace mlbench::report {

namespace {

bool is_utf8(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

void check_note(const std::string& text, const std::string& what, size_t most_bytes, bool lines) {
  if (text.size() > most_bytes) {
    throw UserError(fmt::format("the {} has {} bytes: at most {}", what, text.size(), most_bytes));
  }
  const auto wrong = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 || byte == 0x7f) && !(lines && (c == '\n' || c == '\t' || c == '\r'));
  };
  if (std::ranges::any_of(text, wrong)) throw UserError(fmt::format("the {} holds control characters", what));
  if (!is_utf8(text)) throw UserError(fmt::format("the {} is no UTF-8 text", what));
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

const Json& text_member(const Json& json, const char* name) {
  static const Json kEmpty = "";
  const auto found = json.find(name);
  if (found == json.end()) return kEmpty;
  if (!found->is_string()) throw UserError(fmt::format("notes: '{}' is no text", name));
  return *found;
}

}  // namespace

void check_notes(const RunNotes& notes) {
  check_note(notes.description, "description", kMostNoteBytes, true);
  check_note(notes.expected, "expected result", kMostNoteBytes, true);
  if (notes.tags.size() > kMostTags) {
    throw UserError(fmt::format("{} tags are too many: at most {}", notes.tags.size(), kMostTags));
  }
  for (const std::string& tag : notes.tags) {
    const std::string what = fmt::format("tag '{}'", printable(tag, kMostTagBytes));
    check_note(tag, what, kMostTagBytes, false);
    if (tag.empty() || tag.front() == ' ' || tag.back() == ' ' || tag.find(',') != std::string::npos) {
      throw UserError(fmt::format("the {} is empty, has a comma, or begins or ends with a blank", what));
    }
  }
}

Json to_json(const RunNotes& notes) {
  return {{"description", notes.description}, {"expected", notes.expected}, {"tags", notes.tags}};
}

RunNotes notes_from_json(const Json& json) {
  if (!json.is_object()) throw UserError("notes are a JSON object");
  for (const auto& [name, unused] : json.items()) {
    if (name != "description" && name != "expected" && name != "tags") {
      throw UserError(
          fmt::format("notes have no '{}': valid are description, expected, tags", printable(name, kMostTagBytes)));
    }
  }
  RunNotes notes{text_member(json, "description"), text_member(json, "expected"), {}};
  const Json tags = json.value("tags", Json::array());
  if (!tags.is_array()) throw UserError("notes: 'tags' is no list");
  for (const Json& tag : tags) {
    if (!tag.is_string()) throw UserError("notes: a tag is no text");
    auto text = tag.get<std::string>();
    if (std::ranges::find(notes.tags, text) == notes.tags.end()) notes.tags.push_back(std::move(text));
    if (notes.tags.size() > kMostTags) break;  // refused below
  }
  check_notes(notes);
  return notes;
}

std::filesystem::path notes_path(const std::filesystem::path& run_dir) { return run_dir / "notes.json"; }

RunNotes read_notes(const std::filesystem::path& run_dir) {
  const auto path = notes_path(run_dir);
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::not_found) return {};
  const Json json = read_json_file(path, inputs::kNotes);
  try {
    return notes_from_json(json);
  } catch (const UserError& wrong) {
    throw UserError(fmt::format("{}: {}", path.string(), wrong.what()));
  }
}

RunNotes notes_or_none(const std::filesystem::path& run_dir) {
  try {
    return read_notes(run_dir);
  } catch (const std::exception&) {
    return {};
  }
}

bool mentions(const RunNotes& notes, const std::string& text) {
  const std::string wanted = lower(text);
  const auto holds = [&](const std::string& one) { return lower(one).find(wanted) != std::string::npos; };
  return holds(notes.description) || holds(notes.expected) || std::ranges::any_of(notes.tags, holds);
}

std::string notes_text(const RunNotes& notes) {
  std::string out;
  const auto add = [&](const char* title, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:12} {}\n", title, printable_lines(text, std::string(13, ' ')));
  };
  add("description", notes.description);
  add("expected", notes.expected);
  add("tags", fmt::format("{}", fmt::join(notes.tags, ", ")));
  return out;
}

}  // namespace mlbench::report
