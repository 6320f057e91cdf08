#pragma once

// What people say about a run: RUN/notes.json beside the record, which says nothing about it. Written by home/notes.h.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct RunNotes {
  std::string description, expected;  // text of several lines; expected: the result that was expected
  std::vector<std::string> tags;      // in the order given, each once
  bool operator==(const RunNotes&) const = default;
};

inline constexpr size_t kMostNoteBytes = 8192, kMostTagBytes = 64, kMostTags = 32;

// UserError naming the field, for what is larger than that, is no UTF-8, or holds control characters (other than line
// ends and tabs of a text), and for a tag that is empty, has a comma or begins or ends with a blank.
void check_notes(const RunNotes& notes);

// {"description", "expected", "tags"}. From JSON: a member that is absent is empty; UserError for wrong types, unknown
// members, and as check_notes(). A tag that comes twice is taken once.
Json to_json(const RunNotes& notes);
RunNotes notes_from_json(const Json& json);

std::filesystem::path notes_path(const std::filesystem::path& run_dir);
// Empty where there are none. IoError, UserError with the path.
RunNotes read_notes(const std::filesystem::path& run_dir);
// Empty also when they cannot be read: for lists.
RunNotes notes_or_none(const std::filesystem::path& run_dir);

// Whether `text` is in the description, the expected result or a tag, in any case of its ASCII letters.
bool mentions(const RunNotes& notes, const std::string& text);
// For people; "" where there are none.
std::string notes_text(const RunNotes& notes);

}  // namespace mlbench::report
