#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "mlbench/base/system_error.h"
#include "mlbench/base/test_error.h"
#include "mlbench/image/shards/container.h"
#include "mlbench/image/shards/made_folders_test.h"
#include "mlbench/record/test_schema.h"

namespace mlbench::image {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using test::put;
using test::shard_folder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr ContainerFormat kBoth[] = {ContainerFormat::kTar, ContainerFormat::kTfrecord};

struct Images {
  Images() { test::make_folder_of_images(root); }
  std::string error(const ShardOptions& options = {}) const {
    return error_of([&] { shard_folder(root, output, options); });
  }
  TemporaryFolder scratch;
  fs::path root = scratch / "train", output = scratch / "out/shards";
};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST(Shards, HoldTheSamplesOfTheFolder) {
  const Images made;
  const SampleIndex folder = index_image_folder(made.root);
  for (const ContainerFormat format : kBoth) {
    for (const int64_t shards : {1, 2, 7, 23}) {
      const fs::path output = made.scratch / fmt::format("{}-{}", row_of(format).name, shards);
      const ShardManifest manifest = shard_folder(made.root, output, {format, shards, "train", 5});
      EXPECT_EQ(manifest, read_manifest(output / kManifestFile));
      const Container container = find_container({.paths = {output}});
      EXPECT_EQ(container.format, format);
      EXPECT_EQ(container.classes, folder.classes);
      EXPECT_EQ(std::ssize(container.shards), shards);
      EXPECT_THAT(contents_of(index_of(container)), UnorderedElementsAreArray(contents_of(folder))) << output;
      for (const ShardManifest::Shard& shard : manifest.shards) {
        EXPECT_EQ(shard.sha256, sha256_hex_of_file(output / shard.file));
        EXPECT_EQ(shard.bytes, static_cast<int64_t>(fs::file_size(output / shard.file)));
        EXPECT_TRUE(shard.samples == 23 / shards || shard.samples == 23 / shards + 1) << shard.samples;
      }
    }
  }
}

TEST(Shards, AreNamedByTheirNumber) {
  const Images made;
  shard_folder(made.root, made.output, {ContainerFormat::kTar, 2, "val"});
  EXPECT_THAT(names_in(made.output),
              ElementsAre("classes.txt", "shards.json", "val-00000-of-00002.tar", "val-00001-of-00002.tar"));
  EXPECT_EQ(read_file(made.output / kClassesFile), "n01\nn02\nn03 \xC3\xA9\n");
  EXPECT_EQ(shard_name("train", 63, 1024, ContainerFormat::kTfrecord), "train-00063-of-01024");
}

TEST(Shards, FollowFromTheSeedAlone) {
  const Images made;
  for (const ContainerFormat format : kBoth) {
    const auto hashes = [&](const char* name, std::optional<uint64_t> seed) {
      return shard_folder(made.root, made.scratch / fmt::format("{}-{}", row_of(format).name, name),
                          {format, 3, "train", seed})
          .shards;
    };
    const auto first = hashes("a", 7);
    EXPECT_EQ(first, hashes("b", 7));
    EXPECT_NE(first, hashes("c", 8));
    EXPECT_NE(first, hashes("d", std::nullopt));
  }
}

TEST(Shards, KeepTheOrderWithoutASeed) {
  const Images made;
  for (const ContainerFormat format : kBoth) {
    const fs::path output = made.scratch / std::string(row_of(format).name);
    shard_folder(made.root, output, {format, 4, "train", std::nullopt});
    EXPECT_EQ(contents_of(index_of(find_container({.paths = {output}}))), contents_of(index_image_folder(made.root)));
  }
}

// Python's tarfile, and a reader of records and messages that knows nothing of ours.
TEST(Shards, OtherProgramsReadThem) {
  if (!program_exists("python3")) GTEST_SKIP() << "missing capability: python3";
  const Images made;
  const SampleIndex folder = index_image_folder(made.root);
  for (const ContainerFormat format : kBoth) {
    const fs::path output = made.scratch / std::string(row_of(format).name);
    const ShardManifest manifest = shard_folder(made.root, output, {format, 3, "train", std::nullopt});
    const fs::path sources = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
    std::vector<std::string> arguments = {(sources / "src/mlbench/image/shards/shards_oracle.py").string(),
                                          std::string(row_of(format).name)};
    for (const ShardManifest::Shard& shard : manifest.shards) arguments.push_back((output / shard.file).string());
    const ProcessOutput answer = test::run_python("python3", arguments);
    ASSERT_EQ(answer.end.code, 0) << answer.standard_error;
    const Json read = parse_json(answer.standard_output, {"answers of the oracle", 1 << 20});
    const auto contents = contents_of(folder);
    ASSERT_EQ(read.size(), contents.size());
    for (size_t i = 0; i < contents.size(); ++i) {
      const auto& [key, label, bytes] = contents[i];
      const bool tar = format == ContainerFormat::kTar;
      const Json expected = {{"key", tar ? key : key + ".JPEG"},
                             {"label", tar ? label : label + 1},
                             {"sha256", sha256_hex(bytes)},
                             {"text", tar ? "" : folder.classes[static_cast<size_t>(label)]},
                             {"format", tar                            ? ""
                                        : bytes.starts_with("\x89PNG") ? "PNG"
                                                                       : "JPEG"}};
      EXPECT_EQ(read[i], expected) << i;
    }
  }
}

TEST(Shards, TheManifestMeetsItsSchema) {
  if (const std::string missing = record::SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  const record::SchemaValidator validator("shards.schema.json");
  const Images made;
  Json manifest = to_json(shard_folder(made.root, made.output, {ContainerFormat::kTfrecord, 2}));
  EXPECT_EQ(validator.complaint(manifest), "");
  manifest["seed"] = nullptr;
  EXPECT_EQ(validator.complaint(manifest), "");
  manifest["shards"][0]["sha256"] = "0";
  EXPECT_NE(validator.complaint(manifest), "");
}

TEST(Shards, GoNowhereButIntoANewOrEmptyFolder) {
  const Images made;
  fs::create_directories(made.output);
  EXPECT_EQ(made.error({ContainerFormat::kTar, 2}), "no error") << "an empty folder is as good as none";
  EXPECT_THAT(made.error(), HasSubstr("shards: is not empty, expected a new folder or an empty one"));
  put(made.scratch / "file", "x");
  EXPECT_THAT(error_of([&] { shard_folder(made.root, made.scratch / "file", {}); }), HasSubstr("is no folder"));
  EXPECT_THAT(error_of([&] { shard_folder(made.root, made.root / "n01/shards", {}); }),
              HasSubstr("lies in the folder of the images"));
  EXPECT_EQ(error_of([&] { shard_folder(made.root, (made.scratch / "with/slash/").string() + "/", {}); }), "no error");
  EXPECT_TRUE(fs::exists(made.scratch / "with/slash/shards.json"));
}

TEST(Shards, RefuseWhatCannotBeDone) {
  const Images made;
  EXPECT_THAT(made.error({ContainerFormat::kTar, 24}),
              HasSubstr("--shards 24: expected 1 to 23: there are 23 samples"));
  EXPECT_THAT(made.error({ContainerFormat::kTar, 0}), HasSubstr("expected 1 to 23"));
  EXPECT_THAT(made.error({ContainerFormat::kTar, 1, "../x"}), HasSubstr("name of shards"));
  put(made.root / "n01/a.b.jpg", test::small_png());
  EXPECT_THAT(made.error({ContainerFormat::kTar, 1}),
              HasSubstr("'n01/a.b.jpg': a tar file of WebDataset ends the key"));
  EXPECT_EQ(made.error({ContainerFormat::kTfrecord, 1}), "no error");
  fs::remove(made.root / "n01/a.b.jpg");
  fs::remove_all(made.output);
  put(made.root / "n01/0.png", test::small_png());
  EXPECT_THAT(made.error({ContainerFormat::kTar, 1}), HasSubstr("two images would have the key 'n01/0'"));
}

TEST(Shards, HostileNamesAreRefused) {
  for (const std::string name : {"../x.jpg", "a/../../x.jpg", "/etc/x.jpg", "a\nb.jpg", "\xFF.jpg", ""}) {
    const TemporaryFolder scratch;
    put(scratch / "in/x.jpg", test::small_png());
    SampleIndex index;
    index.shards = {scratch / "in"};
    index.labels = 1;
    index.samples = {{0, 0, 67, 0, name}};
    for (const ContainerFormat format : kBoth) {
      EXPECT_NE(error_of([&] { plan_shards(index, {format}, scratch / "out"); }), "no error") << name;
    }
  }
}

// What is neither JPEG nor PNG ends the writing, and nothing stays.
TEST(Shards, AnErrorLeavesNothing) {
  const Images made;
  put(made.root / "n02/z.jpg", "GIF89a and so on");
  EXPECT_THAT(made.error({ContainerFormat::kTar, 4}),
              HasSubstr("n02/z.jpg: looks like GIF, expected a JPEG or PNG file"));
  EXPECT_THAT(names_in(made.output.parent_path()), ElementsAre());
}

// How a child ends that kills itself behind its tenth sample.
int end_of_killed_writer(const Images& made, ContainerFormat format) {
  const pid_t child = fork();
  if (child == 0) {
    const SampleIndex index = index_image_folder(made.root);
    write_shards(index, plan_shards(index, {format, 4}, made.output), [](int64_t samples, int64_t) {
      if (samples == 10) raise(SIGKILL);
    });
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Shards, AKillLeavesNoShardAndTheNextCallBeginsAnew) {
  for (const ContainerFormat format : kBoth) {
    const Images made;
    ASSERT_EQ(end_of_killed_writer(made, format), SIGKILL);
    EXPECT_FALSE(fs::exists(made.output));
    EXPECT_THAT(names_in(made.output.parent_path()), ElementsAre(".tmp-shards"));
    shard_folder(made.root, made.output, {format, 2});
    EXPECT_THAT(names_in(made.output.parent_path()), ElementsAre("shards"));
    EXPECT_EQ(names_in(made.output).size(), 4U);
  }
}

TEST(Shards, TwoWritersOfOneFolderAreToldApart) {
  const Images made;
  const SampleIndex index = index_image_folder(made.root);
  const ShardPlan plan = plan_shards(index, {ContainerFormat::kTar, 2}, made.output);
  std::string second;
  write_shards(index, plan, [&](int64_t samples, int64_t) {
    if (samples == 5) second = error_of([&] { write_shards(index, plan); });
  });
  EXPECT_THAT(second, HasSubstr("another process writes it"));
  EXPECT_EQ(index_of(find_container({.paths = {made.output}})).samples.size(), 23U);
}

TEST(Shards, AFullDiskIsAnErrorThatSaysSo) {
  const Images made;
  constexpr int kNoMount = 77;
  const pid_t child = fork();
  if (child == 0) {
    const fs::path disk = made.scratch / "disk";
    fs::create_directories(disk);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=8192") != 0) {
      _exit(kNoMount);
    }
    int code = 1;
    try {
      shard_folder(made.root, disk / "shards", {ContainerFormat::kTar, 2});
    } catch (const DiskFull& full) {
      code = std::string(full.what()).find("No space left") != std::string::npos && names_in(disk).empty() ? 0 : 2;
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "missing capability: the right to mount a tmpfs";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ShardManifest, OfAStrangerIsChecked) {
  const TemporaryFolder folder;
  const auto error = [&](const Json& change) {
    Json json = {{"version", 1},     {"format", "tar"}, {"samples", 1},           {"classes", 1},
                 {"first_label", 0}, {"seed", nullptr}, {"shards", Json::array()}};
    json.update(change);
    write_json_file(folder / "m.json", json);
    return error_of([&] { read_manifest(folder / "m.json"); });
  };
  const auto shard = [](const std::string& file) {
    return Json{{"shards", {{{"file", file}, {"samples", 1}, {"bytes", 1}, {"sha256", ""}}}}};
  };
  EXPECT_EQ(error(shard("a")), "no error");
  EXPECT_THAT(error(shard("../a")), HasSubstr("m.json: shards: '../a': a path that leaves its folder"));
  EXPECT_THAT(error(shard("a/b")), HasSubstr("expected a file of the same folder"));
  EXPECT_THAT(error(shard("/etc/passwd")), HasSubstr("an absolute path"));
  EXPECT_THAT(error({{"version", 2}}), HasSubstr("another version"));
  EXPECT_THAT(error({{"format", "zip"}}), HasSubstr("valid: folder, tar, tfrecord"));
  EXPECT_THAT(error({{"format", "folder"}}), HasSubstr("expected tar or tfrecord"));
  EXPECT_THAT(error({{"classes", 0}}), HasSubstr("at least one class"));
  EXPECT_THAT(error({{"shards", 1}}), HasSubstr("has no list 'shards'"));
  EXPECT_THAT(error({{"shards", {1}}}), HasSubstr("a name is empty"));
}

TEST(Classes, StandOneOnALine) {
  const TemporaryFolder folder;
  const auto classes = [&](const std::string& text) {
    put(folder / "c", text);
    return read_classes(folder / "c");
  };
  EXPECT_THAT(classes("b\r\na c\n"), ElementsAre("b", "a c"));
  EXPECT_THAT(error_of([&] { classes("a\na\n"); }), HasSubstr("c:2: the class 'a' stands twice"));
  EXPECT_THAT(error_of([&] { classes("a\n\nb"); }), HasSubstr("c:2: '': a name is empty"));
  EXPECT_THAT(error_of([&] { classes(""); }), HasSubstr("expected a class on each line"));
}

}  // namespace
}  // namespace mlbench::image
