#include "mlbench/supervise/traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"

namespace mlbench::supervise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Traces : public testing::Test {
 protected:
  Traces() {
    run_.run_dir = folder_.path();
    create_run_folders(folder_.path());
  }
  void write(LogStream stream, const std::string& text) const {
    write_file_atomically(rank_log_path(logs_dir(folder_.path()), 2, 1, stream), text);
  }

  const TemporaryFolder folder_;
  spec::RunSpec run_;
};

TEST_F(Traces, ErrorsAreQuotedFirst) {
  EXPECT_THAT(log_tail(run_, 2, 1), IsEmpty());
  write(LogStream::kStdout, "step 1\nstep 2\n");
  EXPECT_THAT(log_tail(run_, 2, 1), ElementsAre("step 1", "step 2"));
  write(LogStream::kStderr, "Traceback\nValueError\n");
  EXPECT_THAT(log_tail(run_, 2, 1), ElementsAre("Traceback", "ValueError", "step 1", "step 2"));
  EXPECT_THAT(log_tail(run_, 1, 1), IsEmpty()) << "another segment";
}

TEST_F(Traces, OnlyTheLastLinesAreQuoted) {
  std::string errors, output;
  for (int line = 0; line < 18; ++line) errors += "error " + std::to_string(line) + "\n";
  for (int line = 0; line < 30; ++line) output += "step " + std::to_string(line) + "\n";
  write(LogStream::kStdout, output);
  write(LogStream::kStderr, errors);
  std::vector<std::string> lines = log_tail(run_, 2, 1);
  ASSERT_THAT(lines, SizeIs(20));
  EXPECT_EQ(lines[0], "error 0");
  EXPECT_EQ(lines[18], "step 28");
  EXPECT_EQ(lines[19], "step 29");
  write(LogStream::kStderr, errors + errors + std::string(600, 'x'));
  lines = log_tail(run_, 2, 1);
  ASSERT_THAT(lines, SizeIs(20));
  EXPECT_EQ(lines[18], "error 17");
  EXPECT_EQ(lines[19], std::string(500, 'x'));
}

TEST_F(Traces, AReasonIsLookedForInErrorsFirst) {
  EXPECT_EQ(words_left(run_, 2, 1).log_reason, "");
  write(LogStream::kStdout, "No space left on device: there\n");
  EXPECT_EQ(words_left(run_, 2, 1).log_reason, "No space left on device: there");
  write(LogStream::kStderr, "warning\n");
  EXPECT_EQ(words_left(run_, 2, 1).log_reason, "No space left on device: there");
  write(LogStream::kStderr, "No space left on device: here\nwarning\n");
  EXPECT_EQ(words_left(run_, 2, 1).log_reason, "No space left on device: here");
}

}  // namespace
}  // namespace mlbench::supervise
