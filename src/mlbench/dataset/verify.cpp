#include "mlbench/dataset/verify.h"

#include <fmt/format.h>

#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/archive.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/images.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

std::string sha256_of_content(const fs::path& path) {
  InputFile file(path);
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  while (const size_t count = file.read(buffer)) hash.update(std::span(buffer).first(count));
  return hash.hex();
}

VerifyResult verify_file(const FileSource& source, const fs::path& path) {
  VerifyResult result{path.string(), false, ""};
  try {
    const auto bytes = static_cast<int64_t>(fs::file_size(path));
    const std::string sha256 = sha256_hex_of_file(path);
    if (!source.sha256.empty() && sha256 == source.sha256) {
      result = {path.string(), true, "as published"};
    } else if (!source.content_sha256.empty() && sha256_of_content(path) == source.content_sha256) {
      result = {path.string(), true,
                is_packed(path) ? "content as published, packed otherwise" : "content as published, unpacked"};
    } else if (source.sha256.empty() && source.content_sha256.empty()) {
      result.message = fmt::format("no published checksum to compare with (sha256 {}, {} bytes)", sha256, bytes);
    } else {
      result.message =
          fmt::format("sha256 {} ({} bytes), published {} ({} bytes)", sha256, bytes, source.sha256, source.bytes);
    }
  } catch (const std::exception& error) {
    result.message = error.what();
  }
  return result;
}

// Compares an archive as a whole, or member by member where it is packed in another way.
std::vector<VerifyResult> verify_archive(const DatasetDescription& description, const LocatedDataset& located) {
  const ArchiveSource& archive = description.archive;
  const std::string sha256 = sha256_hex_of_file(located.archive);
  if (!archive.sha256.empty() && sha256 == archive.sha256) return {{located.archive.string(), true, "as published"}};
  const TemporaryFolder folder;
  const ReadableFiles unpacked(description, located, folder.path());
  std::vector<VerifyResult> results;
  for (size_t split = 0; split < description.splits.size(); ++split) {
    const auto& sources = description.splits[split].files;
    for (size_t i = 0; i < sources.size(); ++i) {
      VerifyResult result = verify_file(sources[i], unpacked.files()[split][i]);
      result.file = fmt::format("{}: {}", located.archive.string(), located.files[split][i].generic_string());
      results.push_back(std::move(result));
    }
  }
  return results;
}

// Compares the fingerprint, which covers all files.
VerifyResult verify_images(const DatasetDescription& description, const LocatedDataset& located) {
  VerifyResult result{located.folder.string(), false, ""};
  const TemporaryFolder folder;
  try {
    const PreparedDataset data = prepare_images(description, located, folder.path(), {});
    result.ok = data.official();
    result.message = data.official()                   ? "as published"
                     : description.fingerprint.empty() ? "no published fingerprint to compare with; it has "
                                                       : "fingerprint ";
    if (!result.ok) result.message += data.fingerprint();
    if (!result.ok && !description.fingerprint.empty()) result.message += ", published " + description.fingerprint;
  } catch (const std::exception& error) {
    result.message = error.what();
  }
  return result;
}

}  // namespace

std::vector<VerifyResult> verify(const DatasetDescription& description, const LocatedDataset& located) {
  if (!located.archive.empty()) return verify_archive(description, located);
  if (find_format(description.format)->encoded) return {verify_images(description, located)};
  std::vector<VerifyResult> results;
  for (size_t split = 0; split < description.splits.size(); ++split) {
    const auto& sources = description.splits[split].files;
    for (size_t i = 0; i < sources.size(); ++i) results.push_back(verify_file(sources[i], located.files[split][i]));
  }
  return results;
}

}  // namespace mlbench::dataset
