#include "mlbench/dataset/images.h"

#include <gmock/gmock.h>

#include <chrono>

#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/verify.h"
#include "mlbench/image/index/example.pb.h"
#include "mlbench/image/index/sample_index.h"
#include "mlbench/image/index/tar_test.h"
#include "mlbench/objects/fake_store_test.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Nothing is decoded here: "images" are words. Five train on three classes, two are evaluated.
struct ImageSet {
  const char* container;
  std::string toml;
  void (*write)(const fs::path& folder);
};

std::string toml_of(const std::string& train, const std::string& test, const std::string& fingerprint = "") {
  return "name = \"dots\"\ntitle = \"Dots\"\nformat = \"images\"\nsample_shape = [3, 8, 8]\nclasses = 3\n"
         "folder = \"dots\"\n" +
         (fingerprint.empty() ? "" : "fingerprint = \"" + fingerprint + "\"\n") +
         "[[split]]\nname = \"train\"\nsamples = 5\n" + train + "[[split]]\nname = \"test\"\nsamples = 2\n" + test;
}

void write_folders(const fs::path& folder) {
  for (const char* file : {"a/1.jpg", "a/2.JPEG", "b/deep/3.png", "c/4.jpg", "c/5.jpg"}) {
    test::write_file(folder / "train" / file, std::string("image ") + file);
  }
  test::write_file(folder / "train/a/boxes.txt", "is no image");
  for (const char* file : {"x.jpg", "y.jpg"})
    test::write_file(folder / "val/images" / file, std::string("test ") + file);
  test::write_file(folder / "val/list.txt", "y.jpg\tc\t0\t1\nx.jpg\tb\t0\t1\n");
}

const std::string kFolders = toml_of("container = \"folder\"\n[[split.file]]\npattern = \"train\"\n",
                                     "container = \"listed\"\n[[split.file]]\npattern = \"val/images\"\n"
                                     "[[split.file]]\npattern = \"val/list.txt\"\n");

void write_tar(const fs::path& file, const std::vector<image::FileInTar>& members) {
  test::write_file(file, image::tar_of(members));
}

void write_tars(const fs::path& folder) {
  write_tar(folder / "train-1.tar", {{"n3.jpg", "image n3"}, {"n3.cls", "1"}, {"n4.jpg", "image n4"}, {"n4.cls", "2"}});
  write_tar(folder / "train-0.tar", {{"n0.jpg", "image n0"},
                                     {"n0.cls", "0"},
                                     {"n1.jpg", "image n1"},
                                     {"n1.cls", "0"},
                                     {"n2.jpg", "image n2"},
                                     {"n2.cls", "1"}});
  write_tar(folder / "val-0.tar", {{"v0.jpg", "test v0"}, {"v0.cls", "2"}, {"v1.jpg", "test v1"}, {"v1.cls", "1"}});
}

std::string record_of(const std::string& image, int64_t label) {
  tensorflow::Example made;
  auto& features = *made.mutable_features()->mutable_feature();
  features["image/encoded"].mutable_bytes_list()->add_value(image);
  features["image/class/label"].mutable_int64_list()->add_value(label);
  std::string record;
  tfrecord::append_record(record, made.SerializeAsString());
  return record;
}

void write_records(const fs::path& folder) {
  test::write_file(folder / "train-00000-of-00002",
                   record_of("image 0", 1) + record_of("image 1", 1) + record_of("image 2", 2));
  test::write_file(folder / "train-00001-of-00002", record_of("image 3", 2) + record_of("image 4", 3));
  test::write_file(folder / "validation-00000-of-00001", record_of("test 0", 3) + record_of("test 1", 2));
}

const std::vector<ImageSet>& image_sets() {
  const auto both = [](const std::string& of_split, const std::string& train, const std::string& test) {
    return toml_of(of_split + "[[split.file]]\npattern = \"" + train + "\"\n",
                   of_split + "[[split.file]]\npattern = \"" + test + "\"\n");
  };
  static const std::vector<ImageSet> kSets = {
      {"folder", kFolders, write_folders},
      {"tar", both("container = \"tar\"\n", "train-*.tar", "val-*.tar"), write_tars},
      {"tfrecord", both("container = \"tfrecord\"\nfirst_label = 1\n", "train-*-of-*", "validation-*-of-*"),
       write_records}};
  return kSets;
}

// A data folder, a cache, and what was said while the set was prepared.
struct Place {
  explicit Place(const ImageSet& set) : description(parse_description("dots.toml", set.toml)) { set.write(root()); }

  fs::path root() const { return data.path() / "dots"; }
  PreparedDataset prepare() {
    said.clear();
    return dataset::prepare(description, {data.path()}, cache.path(),
                            [&](const std::string& line) { said += line + "\n"; });
  }
  std::string error() {
    return message_of<UserError>([&] { prepare(); });
  }

  TemporaryFolder data, cache;
  DatasetDescription description;
  std::string said;
};

std::vector<std::string> keys_of(const CachedSplit& split) {
  std::vector<std::string> keys;
  for (int64_t i = 0; i < split.samples; ++i) {
    const auto key = split.column<BytesColumn>("key").record(i);
    keys.emplace_back(reinterpret_cast<const char*>(key.data()), key.size());
  }
  return keys;
}

// The files of the images, read where the columns say that they lie.
std::vector<std::string> contents_of(const CachedSplit& split) {
  const image::SampleIndex index{.shards = split.stored ? std::vector<fs::path>() : split.shards};
  const image::SampleFiles files(index);
  const std::vector<std::string> keys = keys_of(split);
  const auto number = [&](const char* column, size_t i) { return split.column<FixedColumn>(column).as<int64_t>()[i]; };
  std::vector<std::string> contents;
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<std::byte> bytes;
    if (split.stored) {
      bytes.resize(static_cast<size_t>(number("length", i)));
      split.stored->read(static_cast<size_t>(number("shard", i)), number("offset", i), bytes);
    } else {
      files.read({static_cast<int32_t>(number("shard", i)), number("offset", i), number("length", i), 0, keys[i]},
                 bytes);
    }
    contents.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return contents;
}

TEST(Images, AreIndexedWhereTheyLieInEachContainer) {
  for (const ImageSet& set : image_sets()) {
    SCOPED_TRACE(set.container);
    Place place(set);
    const PreparedDataset data = place.prepare();
    const CachedSplit &train = data.split("train"), &test = data.split("test");
    EXPECT_TRUE(train.encoded());
    EXPECT_THAT(train.labels(), ElementsAre(0, 0, 1, set.container == std::string("folder") ? 2 : 1, 2));
    EXPECT_THAT(test.labels(), ElementsAre(2, 1));
    for (const std::string& image : contents_of(train)) EXPECT_THAT(image, testing::StartsWith("image "));
    for (const std::string& image : contents_of(test)) EXPECT_THAT(image, testing::StartsWith("test "));
  }
  Place place(image_sets()[0]);
  const PreparedDataset data = place.prepare();
  EXPECT_THAT(keys_of(data.split("train")), ElementsAre("a/1.jpg", "a/2.JPEG", "b/deep/3.png", "c/4.jpg", "c/5.jpg"));
  EXPECT_THAT(keys_of(data.split("test")), ElementsAre("y.jpg", "x.jpg")) << "the order of the list";
}

TEST(Images, OfManyShardsAreInTheOrderOfTheirNames) {
  Place place(image_sets()[1]);
  EXPECT_THAT(contents_of(place.prepare().split("train")),
              ElementsAre("image n0", "image n1", "image n2", "image n3", "image n4"));
}

TEST(Images, AreHashedOnce) {
  for (const ImageSet& set : image_sets()) {
    SCOPED_TRACE(set.container);
    Place place(set);
    const std::string fingerprint = place.prepare().fingerprint();
    EXPECT_THAT(place.said, AllOf(HasSubstr("indexing the images of dots"), HasSubstr("hashed 5 of 5 images")));
    EXPECT_EQ(place.prepare().fingerprint(), fingerprint);
    EXPECT_EQ(place.said, "") << "the second start finds the index";
    const Place elsewhere(set);
    fs::remove_all(elsewhere.root());
    fs::copy(place.root(), elsewhere.root(), fs::copy_options::recursive);
    EXPECT_EQ(prepare(elsewhere.description, {elsewhere.data.path()}, elsewhere.cache.path(), {}).fingerprint(),
              fingerprint)
        << "the fingerprint is not of the place";
  }
}

TEST(Images, NoCacheHoldsThem) {
  Place place(image_sets()[0]);
  test::write_file(place.root() / "train/c/4.jpg", std::string(1 << 20, 'x'));
  place.prepare();
  for (const auto& entry : fs::recursive_directory_iterator(place.cache.path())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_LT(entry.file_size(), size_t{1} << 19) << entry.path();
  }
}

void change(const fs::path& file, const std::string& content) {
  const auto before = fs::last_write_time(file);
  test::write_file(file, content);
  fs::last_write_time(file, before + std::chrono::seconds(1));
}

TEST(Images, AChangedFileIsNoticed) {
  Place place(image_sets()[0]);
  const std::string before = place.prepare().fingerprint();
  change(place.root() / "train/b/deep/3.png", "IMAGE b/deep/3.png");
  EXPECT_NE(place.prepare().fingerprint(), before) << "of the same size";
  EXPECT_THAT(place.said, HasSubstr("indexing"));
  change(place.root() / "val/list.txt", "y.jpg\ta\nx.jpg\tb\n");
  EXPECT_THAT(place.prepare().split("test").labels(), ElementsAre(0, 1));
  test::write_file(place.root() / "train/c/6.jpg", "one more");
  EXPECT_THAT(place.error(), AllOf(HasSubstr("train: 6 images in split 'train', expected the 5 of dots")));

  Place shards(image_sets()[1]);
  const std::string of_shards = shards.prepare().fingerprint();
  const fs::path shard = shards.root() / "val-0.tar";
  std::string content = read_file(shard);
  content.replace(content.find("test v0"), 7, "TEST v0");
  change(shard, content);
  EXPECT_NE(shards.prepare().fingerprint(), of_shards);
}

TEST(Images, LabelsOutOfRangeLinksAndOtherClassesAreRefused) {
  Place tar(image_sets()[1]);
  write_tar(tar.root() / "val-0.tar", {{"v0.jpg", "test v0"}, {"v0.cls", "3"}});
  EXPECT_THAT(tar.error(), AllOf(HasSubstr("val-0.tar: v0"), HasSubstr("3"), HasSubstr("0 to 2")));

  Place link(image_sets()[0]);
  fs::create_symlink("/etc/passwd", link.root() / "train/a/7.jpg");
  EXPECT_THAT(link.error(), HasSubstr("7.jpg: is a link"));

  Place classes(image_sets()[0]);
  test::write_file(classes.root() / "train/d/8.jpg", "a fourth class");
  EXPECT_THAT(classes.error(), HasSubstr("4 classes in split 'train', expected the 3 of dots"));
}

TEST(Images, AreOfficialByTheirFingerprint) {
  Place place(image_sets()[0]);
  const std::string fingerprint = place.prepare().fingerprint();
  EXPECT_FALSE(place.prepare().official());
  std::string toml = kFolders;
  toml.replace(toml.find("[[split]]"), 0, "fingerprint = \"" + fingerprint + "\"\n");
  place.description = parse_description("dots.toml", toml);
  EXPECT_TRUE(place.prepare().official());
  EXPECT_THAT(place.said, Not(HasSubstr("warning")));
  const auto verified = [&] { return verify(place.description, locate(place.description, {place.data.path()})); };
  ASSERT_EQ(verified().size(), 1U);
  EXPECT_TRUE(verified()[0].ok) << verified()[0].message;

  change(place.root() / "train/a/1.jpg", "image A/1.jpg");
  EXPECT_FALSE(place.prepare().official());
  EXPECT_THAT(place.said, HasSubstr("are not the official ones of dots: fingerprint"));
  EXPECT_FALSE(verified()[0].ok);
  EXPECT_THAT(verified()[0].message, HasSubstr("published " + fingerprint));
}

TEST(Images, AMissingPartIsNamedByItsPattern) {
  Place folders(image_sets()[0]);
  fs::remove(folders.root() / "val/list.txt");
  EXPECT_THAT(folders.error(), HasSubstr("no val/list.txt"));
  Place shards(image_sets()[1]);
  fs::remove(shards.root() / "val-0.tar");
  EXPECT_THAT(shards.error(), HasSubstr("no val-*.tar"));
}

TEST(Images, DescriptionsAreChecked) {
  const auto error = [](const std::string& given, const std::string& by) {
    std::string toml = kFolders;
    toml.replace(toml.find(given), given.size(), by);
    return message_of<UserError>([&] { parse_description("d.toml", toml); });
  };
  EXPECT_THAT(error("\"folder\"", "\"zip\""), HasSubstr("container 'zip'"));
  EXPECT_THAT(error("\"folder\"", "\"listed\""), HasSubstr("has 1 files; container listed expects 2"));
  EXPECT_THAT(error("[3, 8, 8]", "[1, 8, 8]"), HasSubstr("expected [3, height, width]"));
  EXPECT_THAT(error("\"images\"", "\"cifar\""), HasSubstr("format cifar has no 'container'"));
  EXPECT_THAT(error("[[split]]", "[archive]\npattern = \"dots.tar\"\n[[split]]"), HasSubstr("unpack it"));
}

TEST(Images, MadeOnesHaveTheShapeAndTheNumberThatTheDescriptionSays) {
  std::string toml = kFolders;
  toml.replace(toml.find("samples = 5"), 11, "samples = 5\nsynthetic_samples = 4");
  const TemporaryFolder cache;
  const PreparedDataset data = make_synthetic(parse_description("dots.toml", toml), cache.path(), {});
  EXPECT_EQ(data.split("train").samples, 4);
  EXPECT_EQ(data.split("test").samples, 2);
  EXPECT_THAT(data.split("train").column<FixedColumn>("features").shape, ElementsAre(3, 8, 8));
  EXPECT_FALSE(data.split("train").encoded());
}

TEST(Images, TheSetsThatAreBuiltInAreOfOneShapeAndOneNumberOfClasses) {
  const DatasetDescription& imagenet = find_description("imagenet");
  for (const std::string name : {"imagenet-folders", "imagenet-tar", "imagenet-tfrecord"}) {
    const DatasetDescription& other = find_description(name);
    EXPECT_EQ(other.sample_shape, imagenet.sample_shape);
    EXPECT_EQ(other.classes, imagenet.classes);
    for (size_t split = 0; split < 2; ++split) {
      EXPECT_EQ(other.splits[split].samples, imagenet.splits[split].samples);
      EXPECT_LE(other.splits[split].synthetic_samples, 2048) << "made ones are decoded, and take memory";
    }
  }
}

// ---- in an object store ---------------------------------------------------------------------------------------------

// A store with the files of a place below data/, which the environment names.
struct Stored {
  explicit Stored(const Place& place) : description(place.description) {
    store.options();
    setenv("AWS_ENDPOINT_URL_S3", store.endpoint().c_str(), 1);
    for (const auto& entry : fs::recursive_directory_iterator(place.root())) {
      if (entry.is_regular_file()) store.put(key_of(entry.path().lexically_relative(place.root())), read_file(entry));
    }
  }
  ~Stored() { unsetenv("AWS_ENDPOINT_URL_S3"); }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  static std::string key_of(const fs::path& file) { return "data/dots/" + file.string(); }
  PreparedDataset prepare() {
    said.clear();
    return dataset::prepare(description, {"s3://bucket/data"}, cache.path(),
                            [&](const std::string& line) { said += line + "\n"; });
  }
  std::string error() {
    return message_of<UserError>([&] { prepare(); });
  }

  objects::FakeStore store;
  DatasetDescription description;
  TemporaryFolder cache;
  std::string said;
};

TEST(StoredImages, AreThoseOfTheFolder) {
  for (size_t set = 1; set < image_sets().size(); ++set) {
    SCOPED_TRACE(image_sets()[set].container);
    Place place(image_sets()[set]);
    const PreparedDataset of_files = place.prepare();
    Stored stored(place);
    const PreparedDataset data = stored.prepare();
    EXPECT_EQ(data.fingerprint(), of_files.fingerprint());
    EXPECT_THAT(stored.said, AllOf(HasSubstr("in s3://bucket/data/dots (object store)"), HasSubstr("hashed 5 of 5")));
    for (const char* split : {"train", "test"}) {
      EXPECT_EQ(keys_of(data.split(split)), keys_of(of_files.split(split)));
      EXPECT_EQ(contents_of(data.split(split)), contents_of(of_files.split(split)));
      EXPECT_THAT(data.split(split).labels(), testing::ElementsAreArray(of_files.split(split).labels()));
    }
    for (const auto& entry : fs::directory_iterator(stored.cache.path())) {
      EXPECT_NE(entry.path().extension(), ".tmp") << "a copy of a shard";
    }
    EXPECT_EQ(stored.prepare().fingerprint(), of_files.fingerprint());
    EXPECT_EQ(stored.said, "") << "the second start finds the index";
  }
}

TEST(StoredImages, WhatChecksumsOfRecordsCostIsSaidWhereTheIndexIsMade) {
  for (const ImageSet& set : image_sets()) {
    SCOPED_TRACE(set.container);
    Place place(set);
    const CheckCost made = place.prepare().records_checked();
    const bool records = set.container == std::string("tfrecord");
    EXPECT_EQ(place.said.find("compared the CRC-32C of ") != std::string::npos, records) << place.said;
    EXPECT_EQ(made.ns > 0, records);
    int64_t bytes = 0;  // of whole files, less what frames each of the 7 records
    for (const auto& entry : fs::directory_iterator(place.root())) {
      if (records) bytes += static_cast<int64_t>(entry.file_size());
    }
    EXPECT_EQ(made.bytes, records ? bytes - int64_t{7} * 16 : 0);
    EXPECT_EQ(place.prepare().records_checked().bytes, 0) << "the index was there";
    if (!records) continue;
    Stored stored(place);
    EXPECT_EQ(stored.prepare().records_checked().bytes, made.bytes);
  }
}

TEST(StoredImages, AChangedObjectIsRefusedAndIndexedAnew) {
  Place place(image_sets()[1]);
  Stored stored(place);
  const PreparedDataset before = stored.prepare();
  std::string content = read_file(place.root() / "val-0.tar");
  content.replace(content.find("test v0"), 7, "TEST v0");
  stored.store.put(Stored::key_of("val-0.tar"), content);
  EXPECT_THAT(message_of<UserError>([&] { contents_of(before.split("test")); }),
              AllOf(HasSubstr("s3://bucket/data/dots/val-0.tar"), HasSubstr("list the objects again")));
  const PreparedDataset after = stored.prepare();
  EXPECT_NE(after.fingerprint(), before.fingerprint());
  EXPECT_THAT(contents_of(after.split("test")), ElementsAre("TEST v0", "test v1"));
}

TEST(StoredImages, ErrorsNameTheObject) {
  Place place(image_sets()[1]);
  Stored stored(place);
  stored.store.faults = [](int, const net::http::Request& request) {
    const bool refused = request.raw_target.ends_with("/train-1.tar");
    return refused ? objects::FakeStore::Fault{.status = 403} : objects::FakeStore::Fault();
  };
  EXPECT_THAT(stored.error(), HasSubstr("s3://bucket/data/dots/train-1.tar: the store refuses (403"));
  stored.store.faults = nullptr;

  write_tar(place.root() / "val-0.tar", {{"v0.jpg", "test v0"}, {"v0.cls", "3"}});
  stored.store.put(Stored::key_of("val-0.tar"), read_file(place.root() / "val-0.tar"));
  EXPECT_THAT(stored.error(), AllOf(HasSubstr("s3://bucket/data/dots/val-0.tar: v0"), HasSubstr("0 to 2"),
                                    Not(HasSubstr(stored.cache.path().string()))));
  write_tar(place.root() / "val-0.tar", {});
  stored.store.put(Stored::key_of("val-0.tar"), read_file(place.root() / "val-0.tar"));
  EXPECT_THAT(stored.error(), HasSubstr("s3://bucket/data/dots/val-0.tar: the tar files hold no images"));
}

TEST(StoredImages, AStoreThatDoesNotAnswerIsNoFailureOfTheRanksConnection) {
  objects::FakeStore store;
  store.put("data/0.tar", "content");
  objects::StoreOptions options = store.options();
  options.attempts = 1;
  const StoredShards shards{objects::open_store("s3://bucket/data", options), {{"0.tar", 7, ""}}};
  store.faults = [](int, const net::http::Request&) { return objects::FakeStore::Fault{.status = 503}; };
  std::vector<std::byte> bytes(7);
  EXPECT_THAT([&] { shards.read(0, 0, bytes); },
              testing::ThrowsMessage<IoError>(AllOf(HasSubstr("s3://bucket/data/0.tar"), HasSubstr("503"))));
  EXPECT_THAT([&] { list_objects(*shards.store); }, testing::ThrowsMessage<IoError>(HasSubstr("503")));
  EXPECT_THAT([&] { shards.state(); }, testing::ThrowsMessage<UserError>(HasSubstr("lists no ETag")));
}

TEST(StoredImages, WhatAStoreLacksIsSaid) {
  Place tar(image_sets()[1]);
  fs::remove(tar.root() / "val-0.tar");
  Stored stored(tar);
  EXPECT_THAT(stored.error(), HasSubstr("s3://bucket/data/dots (object store): no val-*.tar"));
  const Place folders(image_sets()[0]);
  Stored others(folders);
  EXPECT_THAT(others.error(), HasSubstr("only images in tar or record files are read from a store"));
}

}  // namespace
}  // namespace mlbench::dataset
