#pragma once

// What people say about a run: RUN/notes.json beside the record, which holds none of it. home/notes.h writes that file.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct RunNotes {
  std::string description, expected;  // note_texts() lists all texts
  std::vector<std::string> tags;      // in the order given, each once
  std::string summary = {}, next_steps = {}, cluster = {}, firewall = {};
  bool operator==(const RunNotes&) const = default;
};

// One of the texts of notes, which may have several lines.
struct NoteText {
  const char* name;  // in JSON
  std::string RunNotes::*text;
  const char* option;  // of `mlbench note`
  const char* words;   // in messages to people
  const char* help;
};
// All texts of notes in the order of an experiment: what is done, on what, what is expected, what came out.
std::span<const NoteText> note_texts();

inline constexpr size_t kMostNoteBytes = 8192, kMostTagBytes = 64, kMostTags = 32;

// Throws UserError, naming the field, where a text or tag exceeds these limits, is no UTF-8, or holds control
// characters (a text may hold line ends and tabs), and where a tag is empty, has a comma, begins or ends with a blank.
void check_notes(const RunNotes& notes);

// An object with the texts by name, and "tags".
Json to_json(const RunNotes& notes);
// The inverse: a member that is absent is empty, and a tag that comes twice is taken once. Throws UserError for wrong
// types and unknown members, and as check_notes() does.
RunNotes notes_from_json(const Json& json);

// Reads RUN/notes.json; empty where it does not exist. Throws IoError where it cannot be read and UserError where it is
// damaged, both with its path.
RunNotes read_notes(const std::filesystem::path& run_dir);
// Reads as read_notes() does, but is empty also where the notes cannot be read: for lists of runs.
RunNotes notes_or_none(const std::filesystem::path& run_dir);

// All texts and tags, each with a line end behind it: what a search looks through.
std::string all_words(const RunNotes& notes);
// Whether `text` is in `words`; the case of ASCII letters does not matter.
bool mentions(const std::string& words, const std::string& text);
// The notes as lines for people; "" where there are none.
std::string notes_text(const RunNotes& notes);

}  // namespace mlbench::report
