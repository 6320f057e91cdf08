#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/notes.h"
#include "mlbench/report/records.h"

namespace mlbench::cli {

namespace {

struct NoteOptions {
  std::string name;
  std::map<const report::NoteText*, std::string> texts;  // the texts that are given
  std::vector<std::string> tags, without_tags;
  bool edits() const { return !texts.empty() || !tags.empty() || !without_tags.empty(); }
};

void edit(report::RunNotes& notes, const NoteOptions& options) {
  for (const auto& [row, text] : options.texts) notes.*row->text = text;
  for (const std::string& tag : options.without_tags) {
    if (std::erase(notes.tags, tag) == 0) throw UserError(fmt::format("run '{}' has no tag '{}'", options.name, tag));
  }
  for (const std::string& tag : options.tags) {
    if (std::ranges::find(notes.tags, tag) == notes.tags.end()) notes.tags.push_back(tag);
  }
}

report::RunNotes remote_notes(const MasterClient& master, const NoteOptions& options) {
  const std::string path = path_of_run(options.name) + "/notes";
  report::RunNotes notes = report::notes_from_json(master.get(path));
  if (!options.edits()) return notes;
  edit(notes, options);
  report::check_notes(notes);
  return report::notes_from_json(master.put(path, report::to_json(notes)));
}

ExitCode note(const Context& context, const NoteOptions& options) {
  report::RunNotes notes;
  if (const auto master = given_master(context)) {
    notes = remote_notes(*master, options);
  } else if (options.edits()) {
    const std::filesystem::path home = context.home();
    notes = home::change_notes(home, report::find_run(home, options.name),
                               [&](report::RunNotes& changed) { edit(changed, options); });
  } else {
    notes = report::read_notes(report::find_run(context.home_to_read(), options.name));
  }
  if (context.json) {
    print_json(report::to_json(notes));
  } else if (notes == report::RunNotes{}) {
    say(fmt::format("run '{}' has no notes", options.name));
  } else {
    print(report::notes_text(notes));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_note(CLI::App& app, Program& program) {
  CLI::App* verb =
      add_verb(app, program, "note", "What you say about a run: what it is for, where it ran, what came out");
  add_master_options(*verb, program);
  auto options = std::make_shared<NoteOptions>();
  verb->add_option("NAME-K", options->name, "the run")->required();
  for (const report::NoteText& row : report::note_texts()) {
    const auto take = [options, &row](const std::string& text) { options->texts[&row] = text; };
    verb->add_option_function<std::string>(row.option, take, fmt::format("{}; \"\": none", row.help))
        ->type_name("TEXT");
  }
  verb->add_option("--tag", options->tags, "one more tag; may come several times")
      ->type_name("TAG")
      ->allow_extra_args(false);
  verb->add_option("--remove-tag", options->without_tags, "one tag less; may come several times")
      ->type_name("TAG")
      ->allow_extra_args(false);
  act(*verb, program, [options](const Context& context) { return note(context, *options); });
}

}  // namespace mlbench::cli
