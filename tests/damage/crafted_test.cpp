// Two thousand files that were made to do damage, each read by a process of its own: by every parser (the seeds of
// tests/fuzz/parsers.h, changed in their structure) and, in the folder of a run, by the commands of a user. Each is
// taken or refused: no crash, no hang, no memory without end.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/report/archive/zip.h"
#include "tests/damage/home.h"
#include "tests/fuzz/parsers.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kFilesOfParsers = 1500, kFilesOfCommands = 500;
constexpr auto kPatience = 5s;
constexpr int64_t kMostResidentBytes = int64_t{300} << 20;

// Changes texts and bytes as nobody does by accident.
class Crafter {
 public:
  Crafter() {
    const auto given = environment_variable("MLBENCH_FUZZ_SEED");
    seed_ = given ? std::stoull(*given) : std::random_device()();
    fmt::print("seed {}: repeat with MLBENCH_FUZZ_SEED={} ctest -L fuzz -R crafted\n", seed_, seed_);
    random_.seed(seed_);
  }
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[below(list.size())];
  }

  std::string change(std::string text) {
    for (size_t i = below(3) + 1; i > 0; --i) {
      const size_t at = text.empty() ? 0 : below(text.size());
      const size_t value = std::min(text.find_first_of(":=", at), text.size());
      switch (below(10)) {
        case 0:
          return below(2) == 0 ? text.substr(0, at) : std::string();
        case 1:
          text.insert(at, deep());
          break;
        case 2:
          text.insert(std::min(value + 1, text.size()), deep() + ",");
          break;
        case 3:
          text.insert(std::min(value + 1, text.size()), number() + ",\"y\":");
          break;
        case 4: {  // a number that lies
          const size_t digit = std::min(text.find_first_of("0123456789", at), text.size());
          const size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
          text.replace(digit, end - digit, number());
          break;
        }
        case 5:  // four bytes that lie
          for (size_t k = at; k < std::min(at + 4, text.size()); ++k) text[k] = below(2) == 0 ? '\xff' : '\x7f';
          break;
        case 6:
          text.insert(at, many_keys());
          break;
        case 7:
          text.insert(at, std::string(below(2'000'000), "x\"\0[\n "[below(6)]));
          break;
        case 8:
          text += test::repeated(text.substr(at, 2000), below(2000));
          break;
        default:
          for (size_t k = 0; k < 4 && !text.empty(); ++k) text[below(text.size())] = static_cast<char>(below(256));
      }
    }
    return text;
  }

 private:
  std::string deep() {
    const size_t depth = one_of(std::vector<size_t>{63, 65, 1000, 100'000, 500'000});
    switch (below(5)) {
      case 0:
        return test::repeated("[", depth) + test::repeated("]", depth);
      case 1:
        return test::repeated("{\"a\":", depth) + "1" + test::repeated("}", depth);
      case 2:
        return test::repeated("a.", depth);
      case 3:
        return "\n[" + test::repeated("a.", depth) + "a]\n";
      default:
        return test::repeated("[{", depth);
    }
  }
  std::string number() {
    return one_of(std::vector<std::string>{"9223372036854775807", "-9223372036854775808", "18446744073709551616",
                                           "1e308", "1e999", "-1", "0", "4294967296", "null", "\"\"", "true"});
  }
  std::string many_keys() {
    std::string text = "{";
    for (size_t i = one_of(std::vector<size_t>{100, 10'000, 200'000}); i > 0; --i) text += fmt::format("\"{}\":0,", i);
    return text + "\"a\":1}";
  }

  uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

class Crafted : public testing::Test {
 protected:
  // What one file did; the file stays where it is for the message.
  void expect_harmless(const test::ChildEnd& end, const std::string& what, const std::string& content) {
    const bool harmless = end.in_time && !end.crashed() && end.peak_rss_bytes < kMostResidentBytes;
    largest_ = std::max(largest_, end.peak_rss_bytes);
    if (harmless) return;
    const fs::path kept = fs::temp_directory_path() / fmt::format("crafted-{}", ++findings_);
    test::put(kept, content);
    ADD_FAILURE() << what << ", " << content.size() << " bytes, kept as " << kept << ": "
                  << (end.in_time ? "" : "no end within 5 s; ") << "status " << end.status << ", "
                  << (end.peak_rss_bytes >> 20) << " MiB\n"
                  << end.output.substr(0, 1000);
    ASSERT_LT(findings_, 10) << "enough";
  }

  TemporaryFolder folder_;
  Crafter crafter_;
  int findings_ = 0;
  int64_t largest_ = 0;
};

TEST_F(Crafted, FilesForParsersAreTakenOrRefused) {
  std::map<std::string, std::vector<std::string>> seeds;
  for (const Parser& parser : parsers()) seeds[parser.name] = parser.seeds();
  for (int i = 0; i < kFilesOfParsers && !HasFatalFailure(); ++i) {
    const Parser& parser = parsers()[static_cast<size_t>(i) % parsers().size()];
    const std::vector<std::string>& good = seeds[parser.name];
    // Each seed as it is, once, then changed.
    const auto round = static_cast<size_t>(i) / parsers().size();
    const std::string input = round < good.size() / 2 ? good[2 * round] : crafter_.change(crafter_.one_of(good));
    const auto end = test::run_child(folder_ / "log", kPatience, [&] {
      try {
        try_parser(parser, input);
        return 0;
      } catch (const std::exception& error) {
        std::puts(error.what());
        std::fflush(stdout);
        std::abort();
      }
    });
    expect_harmless(end, fmt::format("parser {}", parser.name), input);
  }
  fmt::print("the largest took {} MiB\n", largest_ >> 20);
}

TEST_F(Crafted, FilesOfRunsCostTheirRunAlone) {
  const fs::path home = folder_ / "home";
  const test::Variable home_variable("MLBENCH_HOME", home.string());
  const test::Variable lock_variable("MLBENCH_CORE_LOCK", (folder_ / "cores").string());
  const fs::path task = test::make_lost_run(home, "task", {});
  const fs::path command = test::make_lost_run(home, "command", {"/bin/true"});
  const std::string program = environment_variable("MLBENCH_TEST_MLBENCH").value();
  test::run_program(folder_ / "log", kPatience, {program, "status"});  // settles them
  const fs::path good_zip = folder_ / "good.zip";
  ASSERT_EQ(
      test::run_program(folder_ / "log", kPatience, {program, "download", "task", "-o", good_zip.string()}).code(), 0);
  const std::vector<report::ZipMember> members = report::read_zip(test::content_of(good_zip));
  const std::string progress = test::content_of(task / "progress.json");

  const fs::path lone = folder_ / "lone";
  for (int i = 0; i < kFilesOfCommands && !HasFatalFailure(); ++i) {
    std::vector<std::string> words;
    std::string content;
    fs::path file;
    if (i % 4 == 3) {  // a file by itself
      switch (crafter_.below(5)) {
        case 0:
          content = crafter_.change(test::content_of(good_zip));
          words = {"result", (lone / "x.zip").string()};
          break;
        case 1: {
          std::vector<report::ZipMember> changed = members;
          report::ZipMember& member = changed[crafter_.below(changed.size())];
          member.content = crafter_.change(member.content);
          content = report::make_zip(changed, 1);
          words = {crafter_.one_of(std::vector<std::string>{"result", "compare"}), (lone / "x.zip").string()};
          break;
        }
        case 2:
          content = crafter_.change(test::content_of(task / "run.json"));
          words = {"compare", (lone / "x.json").string()};
          break;
        case 3:
          content = crafter_.change(test::content_of(task / "run.json"));
          words = {"charts", (lone / "x.json").string(), "--format", "csv,html", "-o", (folder_ / "charts").string()};
          break;
        default:
          content = crafter_.change(find_parser("prices")->seeds().front());
          words = {"charts",   home.string(), "--prices", (lone / "x.json").string(),
                   "--format", "csv",         "-o",       (folder_ / "charts").string()};
      }
      file = words[0] == "charts" && words[2] == "--prices" ? words[3] : words[1];
      test::put(file, content);
    } else {  // one of a run, beside a good one
      fs::remove_all(home / "runs" / "bad");
      const bool custom = crafter_.below(3) == 0;
      const fs::path bad = test::copy_run(custom ? command : task, "bad");
      static const std::vector<std::string> kNames = {
          "spec.json", "run.json", "progress.json", "lease", "spool/rank-0.seg-1.steps", "spool/rank-0.seg-1.events"};
      file = bad / (custom && crafter_.below(2) == 0 ? "metrics/rank-0.jsonl" : crafter_.one_of(kNames));
      if (crafter_.below(2) == 0) {  // it is settled again, by whom it meets
        Json record = Json::parse(test::content_of(bad / "run.json"));
        record["state"] = "running";
        test::put(bad / "run.json", record.dump(2));
        fs::remove(bad / "progress.json");
      }
      content = crafter_.change(test::content_of(file));
      test::put(file, content);
      words = crafter_.one_of(std::vector<std::vector<std::string>>{
          {"status"},
          {"status", "bad"},
          {"status", "bad", "--json"},
          {"stop", "bad"},
          {"download", "bad", "-o", (folder_ / "bad.zip").string()},
          {"compare", "bad", "task"},
          {"charts", home.string(), "--format", "csv", "-o", (folder_ / "charts").string()},
          {"delete", "bad"}});
    }
    words.insert(words.begin(), program);
    const auto end = test::run_program(folder_ / "log", kPatience, words);
    expect_harmless(end, fmt::format("{} on {}", fmt::join(words, " "), file.string()), content);
    EXPECT_NE(end.code(), 1) << "an error that nobody translated: " << fmt::format("{}", fmt::join(words, " ")) << "\n"
                             << end.output;
    if (words[1] == "status" && words.size() == 2) {
      EXPECT_EQ(end.code(), 0) << end.output;
      EXPECT_NE(end.output.find("task"), std::string::npos) << end.output;
    }
  }
  fmt::print("the largest took {} MiB\n", largest_ >> 20);
}

}  // namespace
}  // namespace mlbench
