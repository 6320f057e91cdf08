#include "mlbench/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/base/random.h"
#include "mlbench/base/test_error.h"

namespace mlbench::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
HostTensor tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  HostTensor tensor{dtype, std::move(shape), {}};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

void expect_equal(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.bytes, b.bytes);
}

NamedState full_state() {
  NamedState state;
  state.tensors["conv1.weight"] = tensor<float>(DType::kFloat32, {2, 3}, {1, -2, 0.5, 1e-38F, INFINITY, NAN});
  state.tensors["a.bytes"] = tensor<uint8_t>(DType::kUInt8, {3}, {1, 2, 255});
  state.tensors["int8"] = tensor<int8_t>(DType::kInt8, {1, 1}, {-1});
  state.tensors["int32"] = tensor<int32_t>(DType::kInt32, {2}, {-1, 1 << 30});
  state.tensors["z.int64"] = tensor<int64_t>(DType::kInt64, {}, {1LL << 62});  // a scalar tensor
  state.tensors["half"] = tensor<uint16_t>(DType::kFloat16, {1}, {0x3c00});
  state.tensors["bfloat"] = tensor<uint16_t>(DType::kBFloat16, {1}, {0x3f80});
  state.tensors["double"] = tensor<double>(DType::kFloat64, {2}, {0.1, -0.0});
  state.tensors["empty"] = tensor<float>(DType::kFloat32, {0, 4}, {});
  state.scalars["train/step"] = int64_t{123};
  state.scalars["lowest"] = std::numeric_limits<int64_t>::min();
  state.scalars["real"] = 0.1;
  state.scalars["whole real"] = 2.0;
  state.scalars["infinite"] = std::numeric_limits<double>::infinity();
  state.scalars["minus infinite"] = -std::numeric_limits<double>::infinity();
  state.scalars["text"] = "with \"quotes\" and ü\n";
  return state;
}

class CheckpointTest : public testing::Test {
 protected:
  std::vector<std::string> entries(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, GivesBackEveryBit) {
  const NamedState state = full_state();
  const fs::path path = write_checkpoint(folder_.path(), 123, state);
  EXPECT_EQ(path, folder_ / "step-000000123");
  const NamedState back = read_checkpoint(path);
  ASSERT_EQ(back.tensors.size(), state.tensors.size());
  for (const auto& [name, expected] : state.tensors) {
    SCOPED_TRACE(name);
    expect_equal(back.tensor(name), expected);
  }
  EXPECT_EQ(back.scalars, state.scalars);
}

TEST_F(CheckpointTest, KeepsNaN) {
  NamedState state;
  state.scalars["loss"] = std::nan("");
  EXPECT_TRUE(std::isnan(read_checkpoint(write_checkpoint(folder_.path(), 0, state)).real("loss")));
}

TEST_F(CheckpointTest, ListsCompleteOnesByStep) {
  for (const int64_t step : {1'000'000'000LL, 20LL, 3LL}) write_checkpoint(folder_.path(), step, full_state());
  fs::create_directories(folder_ / "step-000000004");  // without files
  fs::create_directories(folder_ / "step-x");
  fs::create_directories(folder_ / ".tmp-step-000000005-1");
  std::vector<int64_t> steps;
  for (const CheckpointInfo& info : list_checkpoints(folder_.path())) {
    steps.push_back(info.step);
    EXPECT_EQ(read_checkpoint(info.path).integer("train/step"), 123);
  }
  EXPECT_THAT(steps, ElementsAre(3, 20, 1'000'000'000));
  EXPECT_TRUE(list_checkpoints(folder_ / "absent").empty());
}

TEST_F(CheckpointTest, ReplacesOneOfTheSameStepAndClearsWhatAKilledWriterLeft) {
  fs::create_directories(folder_ / ".tmp-step-000000001-99");
  std::ofstream(folder_ / ".tmp-step-000000001-99/model.safetensors") << "half";
  NamedState state;
  for (int64_t round = 0; round < 3; ++round) {
    state.scalars["round"] = round;
    EXPECT_EQ(read_checkpoint(write_checkpoint(folder_.path(), 1, state)).integer("round"), round);
  }
  EXPECT_THAT(entries(folder_.path()), ElementsAre("model.safetensors", "state.json", "step-000000001"));
}

TEST_F(CheckpointTest, ReaderSeesOldOrNewButNeverHalf) {
  NamedState state;
  const auto fill = [&](int32_t value) {
    state.tensors["t"] = tensor<int32_t>(DType::kInt32, {1000}, std::vector<int32_t>(1000, value));
    state.scalars["value"] = int64_t{value};
  };
  fill(0);
  const fs::path path = write_checkpoint(folder_.path(), 1, state);
  std::atomic<bool> done = false;
  int reads = 0;
  std::thread reader([&] {
    while (!done || reads == 0) {
      // A folder that was open before the exchange may lose its files while it is read: then it is absent, not half.
      try {
        const NamedState seen = read_checkpoint(path);
        const HostTensor& values = seen.tensor("t");
        int32_t first = 0, last = 0;
        std::memcpy(&first, values.bytes.data(), sizeof first);
        std::memcpy(&last, values.bytes.data() + values.bytes.size() - sizeof last, sizeof last);
        EXPECT_EQ(first, last);
        ++reads;
      } catch (const std::runtime_error&) {
      }
    }
  });
  for (int32_t value = 1; value <= 20; ++value) {
    fill(value);
    write_checkpoint(folder_.path(), 1, state);
  }
  done = true;
  reader.join();
  EXPECT_EQ(read_checkpoint(path).integer("value"), 20);
}

TEST_F(CheckpointTest, WhatIsNoCheckpointIsNamed) {
  EXPECT_THAT(error_of([&] { read_checkpoint(folder_ / "absent"); }),
              HasSubstr("is not a checkpoint: it has no state.json (expected state.json and model.safetensors)"));
  fs::remove(write_checkpoint(folder_.path(), 1, full_state()) / "model.safetensors");
  EXPECT_THAT(error_of([&] { read_checkpoint(folder_ / "step-000000001"); }), HasSubstr("it has no model.safetensors"));
}

TEST_F(CheckpointTest, FlippedBitsAreFound) {
  const fs::path path = write_checkpoint(folder_.path(), 1, full_state());
  for (const char* name : {"model.safetensors", "state.json"}) {
    const std::string good = read_file(path / name);
    for (size_t i = 0; i < good.size(); i += 7) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1);
      std::ofstream(path / name, std::ios::binary) << bad;
      EXPECT_THAT(error_of([&] { read_checkpoint(path); }), HasSubstr(name)) << "byte " << i;
    }
    std::ofstream(path / name, std::ios::binary) << good;
  }
}

TEST_F(CheckpointTest, TruncationsAreFound) {
  const fs::path path = write_checkpoint(folder_.path(), 1, full_state());
  for (const char* name : {"model.safetensors", "state.json"}) {
    const std::string good = read_file(path / name);
    for (size_t length = 0; length + 2 < good.size(); length += 11) {
      std::ofstream(path / name, std::ios::binary) << good.substr(0, length);
      EXPECT_THAT(error_of([&] { read_checkpoint(path); }), HasSubstr(name)) << length;
    }
    std::ofstream(path / name, std::ios::binary) << good;
  }
  EXPECT_EQ(read_checkpoint(path).integer("train/step"), 123);
}

TEST_F(CheckpointTest, NewerFormatIsNamed) {
  const fs::path path = write_checkpoint(folder_.path(), 1, full_state());
  Json state = read_json_file(path / "state.json");
  state["format"] = 2;
  write_json_file(path / "state.json", state);
  EXPECT_THAT(error_of([&] { read_checkpoint(path); }), HasSubstr("checkpoint format 2; this program reads 1"));
}

TEST_F(CheckpointTest, FullDiskLeavesNothingBehindAndTheOldOneWhole) {
  NamedState state;
  state.tensors["t"] = tensor<float>(DType::kFloat32, {1000}, std::vector<float>(1000, 1));
  state.scalars["round"] = int64_t{1};
  write_checkpoint(folder_.path(), 1, state);
  for (const rlim_t limit : {0, 7, 100, 4000, 4100}) {  // in the length, in the header, in the data, in state.json
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit both{limit, limit};
      setrlimit(RLIMIT_FSIZE, &both);
      int code = 0;
      state.scalars["round"] = int64_t{2};
      state.scalars["long"] = std::string(8000, 'x');
      for (const int64_t step : {1, 2}) {
        try {
          write_checkpoint(folder_.path(), step, state);
          code = 11;
        } catch (const IoError& error) {
          if (std::string(error.what()).find("File too large") == std::string::npos) code = 12;
        }
      }
      _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << limit;
    EXPECT_EQ(WEXITSTATUS(status), 0) << limit;
    EXPECT_THAT(entries(folder_.path()), ElementsAre("model.safetensors", "state.json", "step-000000001")) << limit;
    EXPECT_EQ(read_checkpoint(folder_ / "step-000000001").integer("round"), 1);
  }
}

TEST_F(CheckpointTest, FolderThatIsAFileIsAnIoError) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(write_checkpoint(folder_ / "file", 1, full_state()), IoError);
  EXPECT_THROW(write_safetensors(folder_ / "absent" / "x.safetensors", {}), IoError);
  EXPECT_THROW(read_safetensors(folder_ / "absent.safetensors"), IoError);
}

// ---- safetensors ----------------------------------------------------------------------------------------------------

TEST_F(CheckpointTest, AnotherReaderUnderstandsTheFile) {
  const std::string python = "/usr/bin/python3";
  if (!fs::exists(python)) GTEST_SKIP() << "missing capability: " << python;
  write_safetensors(folder_ / "x.safetensors", full_state().tensors);
  std::ofstream(folder_ / "read.py") << R"(
import json, struct, sys
data = open(sys.argv[1], "rb").read()
(n,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + n])
body = data[8 + n:]
assert n % 8 == 0, n
sizes = {"U8": 1, "I8": 1, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}
end = 0
for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
    first, last = t["data_offsets"]
    count = 1
    for extent in t["shape"]:
        count *= extent
    assert first == end and last - first == count * sizes[t["dtype"]], name
    assert first % sizes[t["dtype"]] == 0, name
    end = last
assert end == len(body)
def get(name, code):
    first, last = header[name]["data_offsets"]
    return struct.unpack("<%d%s" % ((last - first) // struct.calcsize(code), code), body[first:last])
assert header["conv1.weight"]["shape"] == [2, 3]
assert get("conv1.weight", "f")[:3] == (1.0, -2.0, 0.5)
assert get("a.bytes", "B") == (1, 2, 255)
assert get("int32", "i") == (-1, 1 << 30)
assert header["z.int64"]["shape"] == [] and get("z.int64", "q") == (1 << 62,)
assert get("half", "e") == (1.0,)
assert get("double", "d") == (0.1, -0.0)
assert header["bfloat"]["dtype"] == "BF16" and header["empty"]["shape"] == [0, 4]
)";
  ProcessOptions options;
  options.arguments = {python, folder_ / "read.py", folder_ / "x.safetensors"};
  const ProcessOutput output = run_process(options, std::chrono::seconds(60));
  EXPECT_EQ(output.end.code, 0) << output.standard_error;
}

// A file of our own making: header text, then `data` bytes.
std::string raw_file(const std::string& header, size_t data) {
  uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(data, '\1');
}

TEST_F(CheckpointTest, ReadsFilesOfOtherWriters) {
  // Metadata, another order, no padding, an unaligned tensor.
  const std::string header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("a":{"shape":[2,1],"data_offsets":[3,7],"dtype":"F16"}})";
  std::ofstream(folder_ / "x", std::ios::binary) << raw_file(header, 7);
  const auto tensors = read_safetensors(folder_ / "x");
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors.at("a").dtype, DType::kFloat16);
  EXPECT_EQ(tensors.at("a").shape, (std::vector<int64_t>{2, 1}));
  std::ofstream(folder_ / "none", std::ios::binary) << raw_file("{}", 0);
  EXPECT_TRUE(read_safetensors(folder_ / "none").empty());
}

struct Damage {
  const char* what;
  std::string bytes;
  const char* error;
};

TEST_F(CheckpointTest, DamagedFilesAreNamed) {
  const auto one = [](const char* entry, size_t data = 8) {
    return raw_file(std::string("{\"t\":") + entry + "}", data);
  };
  const std::string huge(8, '\xff');
  const std::vector<Damage> table = {
      {"empty", "", "0 bytes; a safetensors file starts with 8 bytes of header length"},
      {"length cut", "1234567", "7 bytes; a safetensors file"},
      {"length too large", raw_file("{}", 0).replace(0, 1, "\3"), "a header of 3 bytes; the file has room for 2"},
      {"length absurd", huge + "{}", "a header of 18446744073709551615 bytes"},
      {"no JSON", raw_file("{\"t\":", 0), "its header is not a JSON object"},
      {"a list", raw_file("[]", 0), "its header is not a JSON object"},
      {"not UTF-8", raw_file("{\"\xff\xfe\":1}", 0), "its header is not a JSON object"},
      {"deep", raw_file(std::string(100000, '['), 0), "its header is not a JSON object"},
      {"no table", one("7"), "tensor 't' is not described by a JSON object"},
      {"no dtype", one(R"({"shape":[2],"data_offsets":[0,8]})"), "tensor 't' has dtype null; expected one of U8, I8"},
      {"other dtype", one(R"({"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]})"),
       "has dtype \"F8_E4M3\"; expected"},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), "has shape null; expected a list of integers"},
      {"negative", one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "has shape [-2]; expected"},
      {"fraction", one(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})"), "has shape [2.5]; expected"},
      {"overflow", one(R"({"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]})"),
       "has 8 bytes, its"},
      {"beyond int64", one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]})"),
       "has 8 bytes, its"},
      {"no offsets", one(R"({"dtype":"F32","shape":[2]})"), "has data_offsets null; expected two integers"},
      {"one offset", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "has data_offsets [0]; expected two"},
      {"backwards", one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "lies at 8..0 of 8 bytes of data"},
      {"beyond", one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"), "lies at 0..16 of 8 bytes of data"},
      {"wrong size", one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
       "has 8 bytes, its shape [3] of F32 needs 12"},
      {"hole", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
       "data from byte 0 to 4 belongs to no tensor or to two"},
      {"rest", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "8 bytes of data, the header describes 4"},
      {"overlap",
       raw_file(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                8),
       "belongs to no tensor or to two"},
  };
  for (const Damage& damage : table) {
    std::ofstream(folder_ / "x.safetensors", std::ios::binary) << damage.bytes;
    EXPECT_THAT(error_of([&] { read_safetensors(folder_ / "x.safetensors"); }),
                testing::AllOf(HasSubstr("x.safetensors: damaged: "), HasSubstr(damage.error)))
        << damage.what;
  }
}

// Whatever the bytes, the answer is tensors or a UserError, never a crash (the sanitizers look).
TEST_F(CheckpointTest, RandomDamageNeverCrashes) {
  const fs::path file = folder_ / "x.safetensors";
  write_safetensors(file, full_state().tensors);
  const std::string good = read_file(file);
  RandomSequence random(1);
  int errors = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    for (uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      bad[random.below(bad.size())] = static_cast<char>(random.next_u32());
    }
    std::ofstream(file, std::ios::binary) << bad;
    try {
      read_safetensors(file);
    } catch (const UserError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 100);
}

}  // namespace
}  // namespace mlbench::checkpoint
