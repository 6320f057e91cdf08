#include "mlbench/image/shards/shard_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cerrno>
#include <exception>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/image/index/example.pb.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

constexpr int kBlockBytes = 1 << 20;

std::string_view text_of(const EncodedImage& image) {
  return {reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()};
}

// A new file and the checksum of what was written to it.
class HashedFile {
 public:
  explicit HashedFile(fs::path path)
      : path_(std::move(path)), file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (!file_) throw_system_error("cannot write " + path_.string(), errno);
  }
  void write(std::string_view bytes) {
    write_all(file_.get(), bytes, path_.string());
    hash_.update(bytes);
    bytes_ += std::ssize(bytes);
  }
  WrittenShard finish() {
    sync_file(file_.get(), path_);
    return {bytes_, hash_.hex()};
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  FileDescriptor file_;
  Sha256 hash_;
  int64_t bytes_ = 0;
};

// ---- TFRecord -------------------------------------------------------------------------------------------------------

void set_text(tensorflow::Features& features, const char* name, std::string_view text) {
  (*features.mutable_feature())[name].mutable_bytes_list()->add_value(text.data(), text.size());
}

// The features that TensorFlow's scripts for ImageNet write, without those that only repeat the image's header.
std::string example_of(const ShardSample& sample) {
  tensorflow::Example example;
  tensorflow::Features& features = *example.mutable_features();
  set_text(features, "image/encoded", text_of(sample.image));
  set_text(features, "image/format", sample.format == Format::kJpeg ? "JPEG" : "PNG");
  set_text(features, "image/filename", sample.key);
  set_text(features, "image/class/text", sample.class_name);
  const int64_t label = sample.label + first_label_of(ContainerFormat::kTfrecord);
  (*features.mutable_feature())["image/class/label"].mutable_int64_list()->add_value(label);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // the order of a map differs from process to process
    MLBENCH_CHECK(example.SerializeToCodedStream(&coded), "a message of one image");
  }
  return bytes;
}

class RecordShard : public ShardWriter {
 public:
  explicit RecordShard(const fs::path& path) : file_(path) {}
  void add(const ShardSample& sample) override {
    tfrecord::append_record(waiting_, example_of(sample));
    if (std::ssize(waiting_) >= kBlockBytes) flush();
  }
  WrittenShard finish() override {
    flush();
    return file_.finish();
  }

 private:
  void flush() {
    file_.write(waiting_);
    waiting_.clear();
  }
  HashedFile file_;
  std::string waiting_;
};

// ---- tar ------------------------------------------------------------------------------------------------------------

class TarShard : public ShardWriter {
 public:
  explicit TarShard(const fs::path& path) : file_(path) {
    // GNU's format holds names of any length and in any letters, whatever the locale of this process is.
    check(tar_ != nullptr && archive_write_set_format_gnutar(tar_.get()) == ARCHIVE_OK &&
          archive_write_set_bytes_per_block(tar_.get(), kBlockBytes) == ARCHIVE_OK &&
          archive_write_set_bytes_in_last_block(tar_.get(), 1) == ARCHIVE_OK &&
          archive_write_open(tar_.get(), this, nullptr, &TarShard::write, nullptr) == ARCHIVE_OK);
  }
  void add(const ShardSample& sample) override {
    add_member(fmt::format("{}.{}", sample.key, sample.format == Format::kJpeg ? "jpg" : "png"), text_of(sample.image));
    add_member(fmt::format("{}.cls", sample.key), std::to_string(sample.label));
  }
  WrittenShard finish() override {
    check(archive_write_close(tar_.get()) == ARCHIVE_OK);
    return file_.finish();
  }

 private:
  void add_member(const std::string& name, std::string_view content) {
    archive_entry_clear(entry_.get());
    archive_entry_set_pathname(entry_.get(), name.c_str());
    archive_entry_set_filetype(entry_.get(), AE_IFREG);
    archive_entry_set_perm(entry_.get(), 0644);
    archive_entry_set_mtime(entry_.get(), 0, 0);  // the same samples give the same file
    archive_entry_set_size(entry_.get(), std::ssize(content));
    check(archive_write_header(tar_.get(), entry_.get()) == ARCHIVE_OK);
    check(archive_write_data(tar_.get(), content.data(), content.size()) == std::ssize(content));
  }

  // Called by libarchive, through which no exception may go.
  static la_ssize_t write(archive*, void* shard, const void* data, size_t size) {
    auto& self = *static_cast<TarShard*>(shard);
    if (self.failure_) return -1;
    try {
      self.file_.write({static_cast<const char*>(data), size});
    } catch (...) {
      self.failure_ = std::current_exception();
      return -1;
    }
    return static_cast<la_ssize_t>(size);
  }

  void check(bool good) {
    if (failure_) std::rethrow_exception(failure_);
    if (good) return;
    const char* reason = tar_ != nullptr ? archive_error_string(tar_.get()) : nullptr;
    throw IoError(fmt::format("cannot write {}: {}", file_.path().string(), reason != nullptr ? reason : "no memory"));
  }

  HashedFile file_;
  std::exception_ptr failure_;
  std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry_{archive_entry_new(), archive_entry_free};
  std::unique_ptr<archive, decltype(&archive_write_free)> tar_{archive_write_new(), archive_write_free};
};

}  // namespace

std::unique_ptr<ShardWriter> make_shard_writer(ContainerFormat format, const fs::path& path) {
  if (format == ContainerFormat::kTfrecord) return std::make_unique<RecordShard>(path);
  MLBENCH_CHECK(format == ContainerFormat::kTar, "a format of shards");
  return std::make_unique<TarShard>(path);
}

}  // namespace mlbench::image
