#pragma once

// What people say about a run: RUN/notes.json beside the record, which says nothing about it. Written by home/notes.h.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct RunNotes {
  std::string description, expected;  // the texts are those of note_texts()
  std::vector<std::string> tags;      // in the order given, each once
  std::string summary = {}, next_steps = {}, cluster = {}, firewall = {};
  bool operator==(const RunNotes&) const = default;
};

// A text of several lines that notes have.
struct NoteText {
  const char* name;  // in JSON
  std::string RunNotes::*text;
  const char* option;  // of `mlbench note`
  const char* words;   // of people
  const char* help;
};
// In the order of an experiment: what is done, on what, what is expected, what came out.
std::span<const NoteText> note_texts();

inline constexpr size_t kMostNoteBytes = 8192, kMostTagBytes = 64, kMostTags = 32;

// UserError naming the field, for what is larger than that, is no UTF-8, or holds control characters (other than line
// ends and tabs of a text), and for a tag that is empty, has a comma or begins or ends with a blank.
void check_notes(const RunNotes& notes);

// The texts by name, and "tags". From JSON: a member that is absent is empty; UserError for wrong types, unknown
// members, and as check_notes(). A tag that comes twice is taken once.
Json to_json(const RunNotes& notes);
RunNotes notes_from_json(const Json& json);

// Empty where there are none. IoError, UserError with the path.
RunNotes read_notes(const std::filesystem::path& run_dir);
// Empty also when they cannot be read: for lists.
RunNotes notes_or_none(const std::filesystem::path& run_dir);

// All that is said, a line or more each: what a search looks through.
std::string all_words(const RunNotes& notes);
// Whether `text` is in a text or a tag, in any case of its ASCII letters.
bool mentions(const RunNotes& notes, const std::string& text);
// For people; "" where there are none.
std::string notes_text(const RunNotes& notes);

}  // namespace mlbench::report
