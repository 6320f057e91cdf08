#include "mlbench/base/storage.h"

#include <sys/vfs.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace mlbench {

namespace {

struct Kind {
  uint32_t type;
  std::string_view name;
};

// Numbers as in statfs(2), the kernel's list of them, and the file systems' own sources.
constexpr Kind kKinds[] = {
    {0xef53, "local"},                                                      // ext2, ext3, ext4
    {0x58465342, "local"},                                                  // xfs
    {0x9123683e, "local"},                                                  // btrfs
    {0x2fc12fc1, "local"},                                                  // zfs
    {0xca451a4e, "local"},                                                  // bcachefs
    {0xf2f52010, "local"},                                                  // f2fs
    {0x3153464a, "local"},                                                  // jfs
    {0x52654973, "local"},                                                  // reiserfs
    {0x01021994, "local"},                                                  // tmpfs
    {0x858458f6, "local"},                                                  // ramfs
    {0x794c7630, "local"},                                                  // overlayfs: of containers, over the host's
    {0x61756673, "local"},                                                  // aufs
    {0x73717368, "local"},                                                  // squashfs
    {0xe0f5e1e2, "local"},                                                  // erofs
    {0x9660, "local"},                                                      // iso9660
    {0x4d44, "local"},                                                      // vfat
    {0x2011bab0, "local"},                                                  // exfat
    {0x5346544e, "local"},                                                  // ntfs
    {0x7366746e, "local"},                                                  // ntfs3
    {0x6969, "nfs"},        {0x517b, "smb"},          {0xfe534d42, "smb"},  // of version 2 and later
    {0xff534d42, "smb"},                                                    // cifs
    {0x0bd00bd0, "lustre"}, {0x47504653, "gpfs"},     {0x00c36400, "ceph"},   {0x19830326, "beegfs"},
    {0xaad7aaea, "panfs"},  {0x20030528, "orangefs"}, {0x013111a8, "ibrix"},  {0x5346414f, "afs"},
    {0x6b414653, "afs"},    {0x73757245, "coda"},     {0x7461636f, "ocfs2"},  {0x01161970, "gfs2"},
    {0x01021997, "9p"},     {0x786f4256, "vboxsf"},   {0xbacbacbc, "vmhgfs"}, {0x65735546, "fuse"},
};

}  // namespace

std::string storage_kind(const std::filesystem::path& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 ? storage_kind_of(static_cast<uint32_t>(info.f_type)) : "";
}

std::string storage_kind_of(uint32_t type) {
  const auto* kind = std::ranges::find(kKinds, type, &Kind::type);
  return kind == std::end(kKinds) ? "" : std::string(kind->name);
}

}  // namespace mlbench
