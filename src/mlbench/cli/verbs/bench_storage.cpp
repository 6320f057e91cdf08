#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "mlbench/base/numbers.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/objects/measure.h"
#include "mlbench/record/collectives.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::cli {

namespace {

struct StorageOptions {
  std::string place;
  std::string threads = "4", connections, range = "1M", seconds = "10", cache_limit = "64G";
  objects::StoreOptions store;
};

constexpr int kMostThreads = 1024;

Json to_json(const objects::ObjectStore& store, const objects::MeasureOptions& options, int connections,
             const objects::Measured& measured) {
  const auto latency = [&](double share) {
    return measured.read_s.empty() ? Json() : Json(record::percentile(measured.read_s, share));
  };
  const auto rate = [&](int64_t count) {
    return measured.seconds > 0 ? Json(static_cast<double>(count) / measured.seconds) : Json();
  };
  return {{"place", store.place()},
          {"kind", store.kind()},
          {"endpoint", store.endpoint().empty() ? Json() : Json(store.endpoint())},
          {"threads", options.threads},
          {"connections", connections},
          {"range_bytes", options.range_bytes},
          {"objects", measured.objects},
          {"object_bytes", measured.object_bytes},
          {"reads", measured.ranges},
          {"bytes", measured.bytes},
          {"seconds", measured.seconds},
          {"complete", measured.complete},
          {"bytes_per_second", rate(measured.bytes)},
          {"reads_per_second", rate(measured.ranges)},
          {"read_s", {{"p50", latency(0.5)}, {"p99", latency(0.99)}, {"max", latency(1)}}},
          {"device_bytes", measured.device_bytes ? Json(*measured.device_bytes) : Json()},
          {"counters", objects::to_json(store.counters())}};
}

std::string text_of(const Json& result) {
  const auto number = [](const Json& value, double scale, const char* unit) {
    return value.is_null() ? "not known" : fmt::format("{:.3g} {}", value.get<double>() * scale, unit);
  };
  const Json& counters = result["counters"];
  report::Table table({{"of", "", report::Align::kLeft}, {"measured", "", report::Align::kLeft}});
  table.add_row({"objects", fmt::format("{}, {}", counted(result["objects"], "object"),
                                        number(result["object_bytes"], 1e-6, "MB"))});
  table.add_row(
      {"read", fmt::format("{} in {}{}", number(result["bytes"], 1e-6, "MB"), number(result["seconds"], 1, "s"),
                           result["complete"].get<bool>() ? ", all of it" : ", until the time was over")});
  table.add_row({"rate", fmt::format("{}, {}", number(result["bytes_per_second"], 1e-6, "MB/s"),
                                     number(result["reads_per_second"], 1, "reads/s"))});
  table.add_row({"time of a read", fmt::format("median {}, 99 % {}", number(result["read_s"]["p50"], 1e3, "ms"),
                                               number(result["read_s"]["p99"], 1e3, "ms"))});
  table.add_row({"from disks of this host", number(result["device_bytes"], 1e-6, "MB")});
  table.add_row({"requests", fmt::format("{}, of these {} again", counters["requests"].get<int64_t>(),
                                         counters["retries"].get<int64_t>())});
  table.add_row(
      {"compared with an MD5", fmt::format("{} in {} of the threads", number(counters["checked_bytes"], 1e-6, "MB"),
                                           number(counters["check_s"], 1, "s"))});
  table.add_row(
      {"cache", fmt::format("{} hits, {} misses, {}", counters["cache_hits"].get<int64_t>(),
                            counters["cache_misses"].get<int64_t>(), number(counters["cache_bytes"], 1e-6, "MB"))});
  table.add_row({"CRC-32C of its blocks",
                 fmt::format("{} in {} of the threads", number(counters["cache_checked_bytes"], 1e-6, "MB"),
                             number(counters["cache_check_s"], 1, "s"))});
  return table.render();
}

ExitCode measure_storage(const Context& context, StorageOptions options) {
  objects::MeasureOptions measure;
  measure.threads = static_cast<int>(parse_count(options.threads, "--threads", {1, kMostThreads}));
  measure.range_bytes = options.range == "object" ? 0 : spec::parse_size(options.range, "--range");
  if (options.range != "object" && measure.range_bytes == 0) throw UserError("--range: expected a size, or object");
  measure.most_time =
      std::chrono::milliseconds(static_cast<int64_t>(1e3 * parse_duration(options.seconds, "--seconds", {0.1, 86400})));
  const std::string& connections = options.connections.empty() ? options.threads : options.connections;
  options.store.connections = static_cast<int>(parse_count(connections, "--connections", {1, kMostThreads}));
  options.store.cache_bytes = spec::parse_size(options.cache_limit, "--cache-limit");
  const auto store = objects::open_store(options.place, options.store);
  const objects::Measured measured = objects::measure(*store, measure);
  const Json result = to_json(*store, measure, options.store.connections, measured);
  if (context.json) {
    print_json(result);
  } else {
    print(text_of(result));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_bench_storage(CLI::App& group, Program& program) {
  CLI::App* verb = add_verb(group, program, "storage", "Time the reading of objects from a folder or an object store");
  auto options = std::make_shared<StorageOptions>();
  verb->add_option("place", options->place, "s3://BUCKET/PREFIX or a folder")->type_name("URL|FOLDER")->required();
  verb->add_option("--threads", options->threads, "threads that read (default: 4)")->type_name("N");
  verb->add_option("--connections", options->connections, "connections to the store (default: as many as threads)")
      ->type_name("N");
  verb->add_option("--range", options->range, "bytes of a read, or 'object' for whole objects (default: 1M)")
      ->type_name("SIZE");
  verb->add_option("--seconds", options->seconds, "stop after this time, where not all was read (default: 10)")
      ->type_name("TIME");
  const char* where = "Object store";
  verb->add_option("--s3-endpoint", options->store.endpoint,
                   "address of the store (default: AWS_ENDPOINT_URL, else Amazon's)")
      ->type_name("URL")
      ->group(where);
  verb->add_option("--s3-region", options->store.region, "region of the bucket (default: AWS_REGION, else us-east-1)")
      ->type_name("REGION")
      ->group(where);
  verb->add_option("--s3-style", options->store.style,
                   "path or virtual: where addresses have the bucket (default: path with an endpoint)")
      ->type_name("STYLE")
      ->group(where);
  verb->add_flag("!--unchecked", options->store.compares, "do not compare the MD5 of whole objects, to know its price")
      ->group(where);
  verb->add_option("--cache", options->store.cache, "keep blocks of objects in this folder")
      ->type_name("FOLDER")
      ->group(where);
  verb->add_option("--cache-limit", options->cache_limit, "the most bytes that are kept there (default: 64G)")
      ->type_name("SIZE")
      ->group(where);
  verb->footer(
      "Example:  mlbench bench storage s3://imagenet/train --threads 16 --range 128K\n"
      "Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or an\n"
      "identity endpoint: docs/object-store.md");
  act(*verb, program, [options](const Context& context) { return measure_storage(context, *options); });
}

}  // namespace mlbench::cli
