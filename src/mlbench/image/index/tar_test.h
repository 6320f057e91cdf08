#pragma once

// For tests: tar files.

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mlbench::image {

struct FileInTar {
  std::string name, content;
  int type = AE_IFREG;
  std::string link = {};  // of a symbolic link; of a file: it is a hard link
};

// A tar file of at most 1 MiB, written by libarchive in the format that `set` chooses.
inline std::string tar_of(const std::vector<FileInTar>& members,
                          int (*set)(archive*) = archive_write_set_format_ustar) {
  std::string file(1 << 20, '\0');
  size_t used = 0;
  archive* writer = archive_write_new();
  set(writer);
  archive_write_open_memory(writer, file.data(), file.size(), &used);
  for (const FileInTar& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_filetype(entry, static_cast<unsigned>(member.type));
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<int64_t>(member.content.size()));
    if (member.type == AE_IFLNK) archive_entry_set_symlink(entry, member.link.c_str());
    if (member.type == AE_IFREG && !member.link.empty()) archive_entry_set_hardlink(entry, member.link.c_str());
    EXPECT_EQ(archive_write_header(writer, entry), ARCHIVE_OK) << archive_error_string(writer);
    archive_write_data(writer, member.content.data(), member.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
  file.resize(used);
  return file;
}

}  // namespace mlbench::image
