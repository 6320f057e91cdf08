// One parser (MLBENCH_FUZZ_PARSER) on what libFuzzer makes of its seeds, which go to the folder MLBENCH_FUZZ_CORPUS
// first. A parser may refuse with the errors of its contract; any other exception, a hang, a leak or an error that the
// sanitizers see is a finding, whose input libFuzzer writes beside the corpus.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/dataset/format.h"
#include "mlbench/master/http/api.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/points.h"
#include "mlbench/net/http/message.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/report/result.h"
#include "mlbench/report/zip.h"
#include "mlbench/spec/client_lines.h"
#include "mlbench/spec/record.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/spec/spool.h"
#include "mlbench/spec/task.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

struct Parser {
  const char* name;
  void (*parse)(const std::string& input);
  std::vector<std::string> (*seeds)();
};

// In memory, where the system has such a folder.
const fs::path& scratch() {
  static const fs::path folder = [] {
    std::string pattern = fs::exists("/dev/shm") ? "/dev/shm/mlbench-fuzz-XXXXXX" : "/tmp/mlbench-fuzz-XXXXXX";
    const fs::path made = mkdtemp(pattern.data());
    std::atexit([] { fs::remove_all(scratch()); });
    return made;
  }();
  return folder;
}

void write(const fs::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  MLBENCH_CHECK(out.good(), "cannot write " + file.string());
}

// Two images of 2 x 2, as the format wants them.
template <auto Read>
void parse_data(const std::string& input) {
  dataset::DatasetDescription description;
  description.name = description.title = "fuzz";
  description.sample_shape = {1, 2, 2};
  description.classes = 10;
  dataset::SplitSpec split;
  split.name = "train";
  split.samples = 2;
  // The first byte says where the second file begins.
  const size_t cut = input.empty() ? 0 : std::min<size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  const fs::path first = scratch() / "first", second = scratch() / "second";
  write(first, input.empty() ? "" : std::string_view(input).substr(1, cut));
  write(second, input.empty() ? "" : std::string_view(input).substr(1 + cut));
  std::vector<std::byte> features(2 * 4 * sizeof(float));
  std::vector<int64_t> labels(2);
  const bool two_files = Read == dataset::read_idx;
  split.files.resize(two_files ? 2 : 1);
  const std::vector<fs::path> files = two_files ? std::vector{first, second} : std::vector{second};
  const size_t width = Read == dataset::read_libsvm ? sizeof(float) : 1;
  Read(description, split, files, {std::span(features).first(2 * 4 * width), labels});
}

const Parser kParsers[] = {
    {"task",
     [](const std::string& input) {
       spec::parse_task({"fuzz.toml", input}, "", {});
     },
     [] {
       std::vector<std::string> seeds;
       for (const spec::TaskSource& task : spec::embedded_tasks()) seeds.emplace_back(task.text);
       return seeds;
     }},
    {"data_description", [](const std::string& input) { dataset::parse_description("fuzz.toml", input); },
     []() -> std::vector<std::string> {
       return {
           "name = \"x\"\ntitle = \"x\"\nformat = \"idx\"\nsample_shape = [1, 2, 2]\nclasses = 10\n"
           "[[splits]]\nname = \"train\"\nsamples = 2\nfiles = [{pattern = \"a\"}, {pattern = \"b\"}]\n"};
     }},
    {"override",
     [](const std::string& input) {
       spec::parse_task(spec::embedded_tasks().front(), "", {spec::parse_override(input)});
     },
     []() -> std::vector<std::string> {
       return {"optimizer.lr=0.1", "model.name=\"resnet20\"", "goal.target=[1, 2]", "batch_size=true"};
     }},
    {"run_spec",
     [](const std::string& input) {
       const Json json = Json::parse(input, nullptr, false);
       if (!json.is_discarded()) spec::run_spec_from_json(json);
     },
     []() -> std::vector<std::string> { return {spec::to_json(spec::RunSpec()).dump()}; }},
    {"record",
     [](const std::string& input) {
       for (const char* name : {"run.json", "result_train_loss @ 0.json"}) {
         report::result_text(report::derive_result({{name, input}}));
       }
     },
     []() -> std::vector<std::string> {
       return {
           R"([{"date": "2026-01-31T12:00:00.000Z", "value": "0.5", "cumulative": false}])",
           R"({"schema_version": 1, "name": "r-1", "task": "fashion-mnist", "state": "finished", "evaluations": []})"};
     }},
    {"zip",
     [](const std::string& input) {
       report::read_zip(input, {100, 1 << 20, 4 << 20});
     },
     []() -> std::vector<std::string> {
       return {report::make_zip({{"run.json", "{}"}, {"result_fwd_pass @ 1.json", std::string(300, '[')}}, 1)};
     }},
    {"client_line", [](const std::string& input) { spec::parse_client_line(input); },
     []() -> std::vector<std::string> {
       return {R"({"sequence": 1, "time": 2.5, "step": 4, "epoch": 1, "values": {"loss": 1e3}, "text": {"a": "b"},)"
               R"( "goal": {"metric": "Prec@1", "split": "test", "target": 80, "value": 81}})"};
     }},
    {"points", [](const std::string& input) { master::parse_points(input, 1); },
     []() -> std::vector<std::string> {
       return {
           "{\"run\": 1, \"rank\": 0, \"sequence\": 1, \"name\": \"loss\", \"step\": 3, \"value\": 0.5}\n"
           "{\"run\": 1, \"rank\": 0, \"sequence\": 2, \"values\": {\"a\": 1}, \"time\": \"2026-01-31T12:00:00Z\"}\n"};
     }},
    {"date",
     [](const std::string& input) {
       parse_time(input);
       master::parse_date(input);
     },
     []() -> std::vector<std::string> {
       return {"2026-01-31T12:00:00.123456Z", "2026-01-31 12:00:00+02:00", "2026-01-31T12:00", "1769860800.5"};
     }},
    {"form", [](const std::string& input) { net::http::parse_form(input); },
     []() -> std::vector<std::string> {
       return {"name=a+b&value=%31%2e5&date=x", "=&&a", "%"};
     }},
    {"target", [](const std::string& input) { net::http::parse_target(input); },
     []() -> std::vector<std::string> {
       return {"/api/v1/runs/r-1/logs/0?offset=3&limit=%35", "/a%2fb/../c//"};
     }},
    {"wire",
     [](const std::string& input) {
       net::wire::FrameReader reader;
       for (size_t at = 0; at < input.size(); at += 7) {
         reader.append(std::string_view(input).substr(at, 7));
         while (const auto message = reader.next(4096)) {
           net::wire::integer_in(*message, "id");
           net::wire::text_in(*message, "key");
           net::wire::bytes_in(*message, "value");
         }
       }
     },
     []() -> std::vector<std::string> {
       return {net::wire::encode({{"op", "get"}, {"id", 1}, {"key", "k"}, {"value", net::wire::to_bytes("v")}})};
     }},
    {"spool",
     [](const std::string& input) {
       const size_t cut = std::min(input.size(), sizeof(spec::SpoolHeader) + 2 * sizeof(spec::StepRecord));
       fs::create_directories(scratch() / "spool");
       write(spec::steps_path(scratch(), 1, 0), std::string_view(input).substr(0, cut));
       write(spec::events_path(scratch(), 1, 0), std::string_view(input).substr(cut));
       spec::derive_clocks({spec::read_spool(scratch(), 1, 0)});
     },
     []() -> std::vector<std::string> {
       const spec::SpoolHeader header;
       spec::StepRecord record;
       record.count = 1;
       std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
       for (int i = 0; i < 2; ++i) bytes.append(reinterpret_cast<const char*>(&record), sizeof record);
       return {bytes + "{\"event\": \"epoch\", \"sequence\": 0, \"epoch\": 1}\n"};
     }},
    {"idx", parse_data<dataset::read_idx>,
     []() -> std::vector<std::string> {
       return {std::string("\x18\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 17) + "abcdefgh" +
               std::string("\0\0\x08\x01\0\0\0\x02\x01\x02", 10)};
     }},
    {"cifar", parse_data<dataset::read_cifar>,
     []() -> std::vector<std::string> { return {std::string("\0\x01wxyz\x02stuv", 11)}; }},
    {"libsvm", parse_data<dataset::read_libsvm>,
     []() -> std::vector<std::string> { return {std::string("\0", 1) + "1 1:0.5 4:-2e3\n-1 2:1 # text\n"}; }},
};

const Parser* chosen = nullptr;

const Parser* find_parser(const std::string& name) {
  for (const Parser& parser : kParsers) {
    if (parser.name == name) return &parser;
  }
  return nullptr;
}

}  // namespace
}  // namespace mlbench

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  using namespace mlbench;
  const char* name = std::getenv("MLBENCH_FUZZ_PARSER");
  const char* corpus = std::getenv("MLBENCH_FUZZ_CORPUS");
  chosen = find_parser(name != nullptr ? name : "");
  if (chosen == nullptr || corpus == nullptr) {
    std::fputs("fuzz_parsers: MLBENCH_FUZZ_PARSER names a parser, MLBENCH_FUZZ_CORPUS a folder; parsers:", stderr);
    for (const Parser& parser : kParsers) std::fprintf(stderr, " %s", parser.name);
    std::fputs("\n", stderr);
    std::exit(2);
  }
  const std::vector<std::string> seeds = chosen->seeds();
  for (size_t i = 0; i < seeds.size(); ++i) write(fs::path(corpus) / fmt::format("seed-{}", i), seeds[i]);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlbench;
  try {
    chosen->parse({reinterpret_cast<const char*>(data), size});
  } catch (const UserError&) {
  } catch (const IoError&) {
  } catch (const CommError&) {  // ProtocolError, too
  } catch (const master::HttpError&) {
  }
  return 0;
}
