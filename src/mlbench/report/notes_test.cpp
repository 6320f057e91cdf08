#include "mlbench/report/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/test_error.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const RunNotes kSaid{"Bigger\nbatches", "80 %", {"batch", "é"}, "78 % in 3 h", "Try 16 workers", "north-2", "none"};

TEST(Notes, GoThroughJsonAndFile) {
  EXPECT_EQ(notes_from_json(to_json(kSaid)), kSaid);
  EXPECT_EQ(notes_from_json(Json::object()), RunNotes{});
  EXPECT_EQ(notes_from_json({{"tags", {"b", "a", "b"}}}).tags, (std::vector<std::string>{"b", "a"}));
  const TemporaryFolder run;
  EXPECT_EQ(read_notes(run.path()), RunNotes{});
  write_file_atomically(notes_path(run.path()), to_json(kSaid).dump());
  EXPECT_EQ(read_notes(run.path()), kSaid);
  write_file_atomically(notes_path(run.path()), "{\"tags\": 3}");
  EXPECT_THAT([&] { read_notes(run.path()); }, ThrowsMessage<UserError>(HasSubstr("notes.json: notes: 'tags'")));
  EXPECT_EQ(notes_or_none(run.path()), RunNotes{});
  EXPECT_THAT(
      [] {
        notes_from_json({{"title", "x"}});
      },
      ThrowsMessage<UserError>(HasSubstr("valid: description, cluster, firewall, expected, summary, "
                                         "next_steps, tags")));
}

TEST(Notes, WhatIsTooLargeOrNoTextIsRefused) {
  const auto error_of = [](const RunNotes& notes) { return mlbench::error_of([&] { check_notes(notes); }); };
  EXPECT_EQ(error_of({std::string(8192, 'x'), "", std::vector<std::string>(32, "t")}), "no error");
  EXPECT_THAT(error_of({std::string(8193, 'x'), "", {}}), HasSubstr("description has 8193 bytes: at most 8192"));
  EXPECT_THAT(error_of({"", std::string("a\0b", 3), {}}), HasSubstr("expected result holds control characters"));
  const std::string lines(8192, '\n');
  EXPECT_THAT(error_of({lines, lines, {}, lines, lines, lines}), HasSubstr("bytes as JSON: at most 65536"));
  EXPECT_THAT(error_of({"\xff", "", {}}), HasSubstr("description is no UTF-8"));
  EXPECT_THAT(error_of({"", "", std::vector<std::string>(33, "t")}), HasSubstr("33 tags are too many"));
  EXPECT_THAT(error_of({"", "", {std::string(65, 't')}}), HasSubstr("65 bytes: at most 64"));
  for (const char* bad : {"", " a", "a ", "a,b"}) EXPECT_THAT(error_of({"", "", {bad}}), HasSubstr("comma")) << bad;
  EXPECT_THAT(error_of({"", "", {"a\nb"}}), HasSubstr("tag 'a\\nb' holds control"));
}

TEST(Notes, AreSearchedInAnyCase) {
  for (const char* text : {"bigger", "BATCHES", "80 %", "Batch", "é", "16 workers", "NORTH", ""})
    EXPECT_TRUE(mentions(all_words(kSaid), text)) << text;
  for (const char* text : {"biggerbatches", "81", "%%"}) EXPECT_FALSE(mentions(all_words(kSaid), text)) << text;
}

TEST(Notes, AreShownAsText) {
  EXPECT_EQ(notes_text(kSaid),
            "description  Bigger\n             batches\ncluster      north-2\nfirewall     none\nexpected     80 %\n"
            "summary      78 % in 3 h\nnext steps   Try 16 workers\ntags         batch, é\n");
  EXPECT_EQ(notes_text({}), "");
}

}  // namespace
}  // namespace mlbench::report
