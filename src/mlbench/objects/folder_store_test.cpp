#include "mlbench/objects/folder_store.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"

namespace mlbench::objects {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_read(ObjectStore& store, const Object& object, int64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  store.read(object, offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(FolderStore, ListsAndReadsRanges) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "b");
  std::ofstream(folder / "b" / "x.tar") << "0123456789";
  std::ofstream(folder / "a") << "abc";
  const auto store = open_store(folder.path().string(), {});
  EXPECT_THAT(store->list(), ElementsAre(Object{"a", 3}, Object{"b/x.tar", 10}));
  EXPECT_EQ(text_read(*store, {"b/x.tar", 10}, 2, 5), "23456");
  const Counters counters = store->counters();
  EXPECT_EQ(counters.objects, 2);
  EXPECT_EQ(counters.reads, 1);
  EXPECT_EQ(counters.bytes, 5);
  EXPECT_EQ(counters.copied_bytes, 0);
  EXPECT_EQ(store->kind(), "local");
  EXPECT_EQ(store->endpoint(), "");
}

TEST(FolderStore, RefusesLinksKeysThatLeaveAndShortFiles) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << "abc";
  const auto store = open_store(folder.path().string(), {});
  EXPECT_THAT(error_of([&] { text_read(*store, {"a", 9}, 1, 8); }), HasSubstr("ends at byte 3"));
  EXPECT_THAT(error_of([&] { text_read(*store, {"../a", 9}, 1, 8); }), HasSubstr("'..'"));
  EXPECT_THROW(text_read(*store, {"gone", 9}, 1, 8), IoError);
  fs::create_symlink("/etc/passwd", folder / "link");
  EXPECT_THAT(error_of([&] { store->list(); }), HasSubstr("a link; expected plain files"));
  EXPECT_THROW(text_read(*store, {"link", 9}, 0, 1), IoError);
}

TEST(Places, WhatIsNoneIsSaid) {
  EXPECT_THAT(error_of([] { open_store("/nonexistent", {}); }), HasSubstr("expected a folder with objects, or s3://"));
  EXPECT_THAT(error_of([] { open_store("gs://bucket", {}); }), HasSubstr("expected s3://BUCKET/PREFIX or a folder"));
}

}  // namespace
}  // namespace mlbench::objects
