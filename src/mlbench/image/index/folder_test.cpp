#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "mlbench/base/relative_key.h"
#include "mlbench/base/test_error.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::image {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void put(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

std::string read_text(const SampleFiles& files, const Sample& sample) {
  std::vector<std::byte> bytes;
  files.read(sample, bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct TwoClasses {
  TwoClasses() {
    put(root / "n02/images/b.JPEG", "bb");
    put(root / "n02/images/a.jpg", "a");
    put(root / "n02/images-2/0.jpg", "00000");
    put(root / "n02/z.PNG", "zzz");
    put(root / "n02/boxes.txt", "no image");
    put(root / "n01/x.jpeg", "xxxx");
    put(root / "words.txt", "no class");
  }
  TemporaryFolder scratch;
  fs::path root = scratch / "train";
};

TEST(ImageFolder, HasTheOrderOfTorchvision) {
  const TwoClasses made;
  const SampleIndex index = index_image_folder(made.root);
  EXPECT_THAT(index.classes, ElementsAre("n01", "n02"));
  EXPECT_EQ(index.labels, 2);
  EXPECT_THAT(index.samples,
              ElementsAre(Sample{0, 0, 4, 0, "n01/x.jpeg"}, Sample{0, 0, 3, 1, "n02/z.PNG"},
                          Sample{0, 0, 1, 1, "n02/images/a.jpg"}, Sample{0, 0, 2, 1, "n02/images/b.JPEG"},
                          Sample{0, 0, 5, 1, "n02/images-2/0.jpg"}));
  const SampleFiles files(index);
  EXPECT_EQ(read_text(files, index.samples[1]), "zzz");
  EXPECT_EQ(read_text(files, index.samples[3]), "bb");
}

TEST(UnlabelledImages, OfAFolderAreThoseOfItsNames) {
  const TwoClasses made;
  put(made.root / "at-the-top.jpg", "tt");
  fs::create_symlink(made.root / "n01/x.jpeg", made.root / "link.jpg");
  const SampleIndex index = index_unlabelled(made.root);
  EXPECT_THAT(index.samples,
              ElementsAre(Sample{0, 0, 2, 0, "at-the-top.jpg"}, Sample{0, 0, 4, 0, "n01/x.jpeg"},
                          Sample{0, 0, 5, 0, "n02/images-2/0.jpg"}, Sample{0, 0, 1, 0, "n02/images/a.jpg"},
                          Sample{0, 0, 2, 0, "n02/images/b.JPEG"}, Sample{0, 0, 3, 0, "n02/z.PNG"}));
  EXPECT_EQ(read_text(SampleFiles(index), index.samples[5]), "zzz");
  put(made.root / "n01/empty.jpg", "");
  EXPECT_THAT(error_of([&] { index_unlabelled(made.root); }), HasSubstr("n01/empty.jpg: 0 bytes, expected 1 to"));
  EXPECT_THAT(error_of([&] { index_unlabelled(made.root / "none"); }), HasSubstr("none: no such file or folder"));
  fs::create_directory(made.root / "bare");
  EXPECT_THAT(error_of([&] { index_unlabelled(made.root / "bare"); }), HasSubstr("bare: holds no images (.jpg"));
}

TEST(ImageFolder, LinksAreRefused) {
  for (const bool folder : {false, true}) {
    const TwoClasses made;
    if (folder) {
      fs::create_directory_symlink("/etc", made.root / "n02/more");
    } else {
      fs::create_symlink("/etc/passwd", made.root / "n02/c.jpg");
    }
    EXPECT_THAT(error_of([&] { index_image_folder(made.root); }), HasSubstr("is a link"));
  }
  const TwoClasses made;
  fs::create_directory_symlink(made.root / "n01", made.root / "n03");
  EXPECT_THAT(error_of([&] { index_image_folder(made.root); }), HasSubstr("n03: is a link"));
}

TEST(ImageFolder, AFileThatBecameALinkIsNotRead) {
  const TwoClasses made;
  const SampleIndex index = index_image_folder(made.root);
  const SampleFiles files(index);
  fs::remove(made.root / "n01/x.jpeg");
  fs::create_symlink("/etc/passwd", made.root / "n01/x.jpeg");
  EXPECT_THAT(error_of([&] { read_text(files, index.samples[0]); }), HasSubstr("became a link"));
}

TEST(ImageFolder, AFileThatBecameShorterIsRefused) {
  const TwoClasses made;
  const SampleIndex index = index_image_folder(made.root);
  const SampleFiles files(index);
  put(made.root / "n01/x.jpeg", "x");
  EXPECT_THAT(error_of([&] { read_text(files, index.samples[0]); }),
              HasSubstr("ends before byte 4, where 'n01/x.jpeg' ends by the index"));
}

TEST(ImageFolder, WhatIsNoImageFolderIsRefused) {
  const auto error_with = [](const std::string& file, const std::string& content) {
    const TwoClasses made;
    put(made.root / file, content);
    return error_of([&] { index_image_folder(made.root); });
  };
  EXPECT_EQ(error_with("n02/more.txt", "x"), "no error");
  EXPECT_THAT(error_with("n02/a.bmp", "x"), HasSubstr("expected images that end in .jpg, .jpeg or .png"));
  EXPECT_THAT(error_with("n02/a.TIFF", "x"), HasSubstr("expected images that end in .jpg, .jpeg or .png"));
  EXPECT_THAT(error_with("n02/a\nb.jpg", "x"), HasSubstr("a name with a line break"));
  EXPECT_THAT(error_with("n\t03/a.jpg", "x"), HasSubstr("a name with a line break"));
  EXPECT_THAT(error_with("n02/\xFF.jpg", "x"), HasSubstr("a name that is not UTF-8"));
  EXPECT_THAT(error_with("n02/empty.jpg", ""), HasSubstr("0 bytes, expected 1 to"));
  EXPECT_THAT(error_with("n03/a.txt", "x"), HasSubstr("n03: holds no images"));
  const TwoClasses made;
  EXPECT_THAT(error_of([&] { index_image_folder(made.root / "none"); }), HasSubstr("no such folder"));
  EXPECT_THAT(error_of([&] { index_image_folder(made.root / "n02/images"); }), HasSubstr("holds no folder"));
  ASSERT_EQ(mkfifo((made.root / "n02/pipe.jpg").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { index_image_folder(made.root); }), HasSubstr("neither a folder nor a plain file"));
}

TEST(SampleFiles, RefuseAFileThatGrew) {
  const TwoClasses made;
  const SampleIndex index = index_image_folder(made.root);
  const SampleFiles files(index);
  EXPECT_EQ(read_text(files, index.samples[0]).size(), static_cast<size_t>(index.samples[0].length));
  put(made.root / index.samples[0].key, std::string(100, 'x'));
  EXPECT_THAT(error_of([&] { read_text(files, index.samples[0]); }), HasSubstr("100 bytes, by the index"));
}

TEST(SampleFiles, OfMoreShardsThanAProcessMayOpenByDefault) {
  const TemporaryFolder folder;
  SampleIndex index;
  for (int shard = 0; shard < 40; ++shard) {
    index.shards.push_back(folder / std::to_string(shard));
    put(index.shards.back(), "image");
  }
  rlimit before{}, few{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = before;
  few.rlim_cur = 30;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const SampleFiles files(index);
  EXPECT_EQ(read_text(files, {39, 0, 5, 0, "x"}), "image");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// ---- lists ----------------------------------------------------------------------------------------------------------

struct Listed {
  Listed() {
    put(root / "ILSVRC2012_val_00000001.JPEG", "1");
    put(root / "ILSVRC2012_val_00000002.JPEG", "22");
    put(root / "val_0.JPEG", "333");
  }
  SampleIndex index(const std::string& text) const {
    put(scratch / "list.txt", text);
    return index_listed_folder(root, scratch / "list.txt", {"n01", "n02", "n03"});
  }
  std::string error(const std::string& text) const {
    return error_of([&] { index(text); });
  }
  TemporaryFolder scratch;
  fs::path root = scratch / "val";
};

TEST(ListedFolder, TakesTheListsThatArePublished) {
  const Listed made;
  const Sample first{0, 0, 1, 2, "ILSVRC2012_val_00000001.JPEG"}, second{0, 0, 2, 0, "ILSVRC2012_val_00000002.JPEG"};
  EXPECT_THAT(made.index("n03\nn01\n").samples, ElementsAre(first, second));
  EXPECT_THAT(made.index("ILSVRC2012_val_00000001.JPEG 2\r\nILSVRC2012_val_00000002.JPEG 0").samples,
              ElementsAre(first, second));
  EXPECT_THAT(made.index("val_0.JPEG\tn02\t0\t32\t44\t62\n").samples, ElementsAre(Sample{0, 0, 3, 1, "val_0.JPEG"}));
}

TEST(ListedFolder, RefusesWhatDoesNotFit) {
  const Listed made;
  EXPECT_THAT(made.error("val_0.JPEG 3\n"), HasSubstr("list.txt:1: label 3, expected 0 to 2"));
  EXPECT_THAT(made.error("val_0.JPEG -1\n"), HasSubstr("label -1, expected 0 to 2"));
  EXPECT_THAT(made.error("val_0.JPEG n04\n"), HasSubstr("label 'n04', expected a class or a number from 0 to 2"));
  EXPECT_THAT(made.error("val_0.JPEG 99999999999999999999\n"), HasSubstr("expected a class or a number"));
  EXPECT_THAT(made.error("val_0.JPEG 1\nval_0.JPEG 1\n"),
              HasSubstr("list.txt:2: 'val_0.JPEG' stands in line 1 already"));
  EXPECT_THAT(made.error("../list.txt 1\n"), HasSubstr("a path that leaves its folder by '..'"));
  EXPECT_THAT(made.error("/etc/passwd 1\n"), HasSubstr("an absolute path"));
  EXPECT_THAT(made.error("a\x1b[2J.JPEG 1\n"), HasSubstr("control character"));
  EXPECT_THAT(made.error("none.JPEG 1\n"), HasSubstr("there is no '"));
  EXPECT_THAT(made.error(std::string(300, 'n') + " 1\n"), HasSubstr("there is no '"));
  EXPECT_THAT(made.error("val_0.JPEG/more 1\n"), HasSubstr("there is no '"));
  EXPECT_THAT(made.error("n01\n\nn02\n"), HasSubstr("label '', expected"));
  EXPECT_THAT(made.error(""), HasSubstr("lists no images"));
  fs::create_symlink("/etc/passwd", made.root / "link.JPEG");
  EXPECT_THAT(made.error("link.JPEG 1\n"), HasSubstr("is a link"));
  fs::create_directory_symlink("/etc", made.root / "more");
  EXPECT_THAT(made.error("more/passwd 1\n"), HasSubstr("'more/passwd' goes by a link"));
  EXPECT_THAT(made.error("./val_0.JPEG 1\n"), "no error");
}

TEST(ListedFolder, HasClassesOfItsOwn) {
  const TemporaryFolder folder;
  const auto classes = [&](const std::string& list) {
    put(folder / "list.txt", list);
    return classes_of_list(folder / "list.txt");
  };
  EXPECT_THAT(classes("a.jpg n02 1 2\nb.jpg n01\nc.jpg n02\n"), ElementsAre("n01", "n02"));
  EXPECT_THAT(classes("n02\nn01\n"), ElementsAre("n01", "n02"));
  EXPECT_THAT(classes("3\n1\n"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(classes("3\nn1\n"), ElementsAre("3", "n1")) << "a name among numbers: all are names";
  EXPECT_THAT(error_of([&] { classes("3\n1000000\n"); }), HasSubstr("list.txt:2: label 1000000, expected 0 to 999999"));
  EXPECT_THAT(error_of([&] { classes("a.jpg n\x1b[2J\n"); }), HasSubstr("control character"));
}

TEST(CheckKey, BoundsAKey) {
  EXPECT_EQ(error_of([] { check_key("x", "a/b..c/...jpg"); }), "no error");
  EXPECT_THAT(error_of([] { check_key("x", std::string(1025, 'a')); }), HasSubstr("more than 1,024 bytes"));
  EXPECT_THAT(error_of([] { check_key("x", "a/.."); }), HasSubstr("by '..'"));
  EXPECT_THAT(error_of([] { check_key("x", ""); }), HasSubstr("a name is empty"));
}

}  // namespace
}  // namespace mlbench::image
