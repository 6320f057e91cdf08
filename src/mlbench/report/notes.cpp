#include "mlbench/report/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/base/utf8.h"

namespace mlbench::report {

namespace {

void check_note(const std::string& text, const std::string& what, size_t most_bytes, bool lines) {
  if (text.size() > most_bytes) {
    throw UserError(fmt::format("the {} has {} bytes: at most {}", what, text.size(), most_bytes));
  }
  if (has_control_character(text, lines ? "\n\t\r" : "")) {
    throw UserError(fmt::format("the {} holds control characters", what));
  }
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

std::span<const NoteText> note_texts() {
  static constexpr NoteText kTexts[] = {
      {"description", &RunNotes::description, "--description", "description", "what it is for"},
      {"cluster", &RunNotes::cluster, "--cluster", "name of the cluster", "the name of the cluster that it ran on"},
      {"firewall", &RunNotes::firewall, "--firewall", "firewall",
       "whether the cluster is behind a firewall, and which"},
      {"expected", &RunNotes::expected, "--expect", "expected result", "the result that you expect"},
      {"summary", &RunNotes::summary, "--summary", "summary", "what came out, in short"},
      {"next_steps", &RunNotes::next_steps, "--next-steps", "next steps", "what is to be done next"},
  };
  return kTexts;
}

void check_notes(const RunNotes& notes) {
  for (const NoteText& row : note_texts()) check_note(notes.*row.text, row.words, kMostNoteBytes, true);
  const size_t size = to_json(notes).dump(-1, ' ', false, Json::error_handler_t::replace).size();
  if (size > inputs::kNotes.most_bytes) {
    throw UserError(fmt::format("the notes have {} bytes as JSON: at most {}", size, inputs::kNotes.most_bytes));
  }
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
  Json json = Json::object();
  for (const NoteText& row : note_texts()) json[row.name] = notes.*row.text;
  json["tags"] = notes.tags;
  return json;
}

RunNotes notes_from_json(const Json& json) {
  if (!json.is_object()) throw UserError("notes are a JSON object");
  std::vector<std::string> valid;
  RunNotes notes;
  for (const NoteText& row : note_texts()) {
    valid.emplace_back(row.name);
    notes.*row.text = text_member(json, row.name);
  }
  valid.emplace_back("tags");
  for (const auto& [name, unused] : json.items()) {
    if (std::ranges::find(valid, name) == valid.end()) {
      refuse_unknown("member of notes", printable(name, kMostTagBytes), valid);
    }
  }
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

std::string all_words(const RunNotes& notes) {
  std::string words;
  for (const NoteText& row : note_texts()) words += notes.*row.text + "\n";
  for (const std::string& tag : notes.tags) words += tag + "\n";
  return words;
}

bool mentions(const std::string& words, const std::string& text) {
  return lower(words).find(lower(text)) != std::string::npos;
}

std::string notes_text(const RunNotes& notes) {
  std::string out;
  const auto add = [&](const char* title, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:12} {}\n", title, printable_lines(text, std::string(13, ' ')));
  };
  for (const NoteText& row : note_texts()) {
    std::string title = row.name;
    std::ranges::replace(title, '_', ' ');
    add(title.c_str(), notes.*row.text);
  }
  add("tags", fmt::format("{}", fmt::join(notes.tags, ", ")));
  return out;
}

}  // namespace mlbench::report
