// mlbench-lmdb: LMDB in a process of its own (lmdb_entries.h says why).
//   mlbench-lmdb FILE    writes the entries of the database to standard output, but `__keys__`, in the order of their
//                        keys: the number of bytes of key and value as two uint32, the key, the value

#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace {

constexpr size_t kLeastPage = 256;  // bytes; the head is two pages

struct Close {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
template <typename Handle>
using Held = std::unique_ptr<Handle, Close>;

int fail(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return 2;
}

bool put(const void* data, size_t bytes) { return std::fwrite(data, 1, bytes, stdout) == bytes; }

bool put_entry(const MDB_val& key, const MDB_val& value) {
  const uint32_t sizes[] = {static_cast<uint32_t>(key.mv_size), static_cast<uint32_t>(value.mv_size)};
  return put(sizes, sizeof sizes) && put(key.mv_data, key.mv_size) && put(value.mv_data, value.mv_size);
}

int write_entries(MDB_env* env, size_t file_bytes) {
  // A page beyond the file's end would end this process where the reading comes to it, after hours perhaps.
  MDB_stat stat;
  MDB_envinfo info;
  if (mdb_env_stat(env, &stat) != 0 || mdb_env_info(env, &info) != 0) return fail("its head is damaged");
  if (stat.ms_psize < kLeastPage) return fail("its pages have " + std::to_string(stat.ms_psize) + " bytes");
  const size_t pages = file_bytes / stat.ms_psize;
  if (info.me_last_pgno >= pages) {
    return fail("it has " + std::to_string(pages) + " pages, its head says " + std::to_string(info.me_last_pgno + 1));
  }
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  MDB_cursor* cursor = nullptr;
  int code = mdb_txn_begin(env, nullptr, MDB_RDONLY, &transaction);
  const Held<MDB_txn> held_transaction(transaction);
  if (code == 0) code = mdb_dbi_open(transaction, nullptr, 0, &database);
  if (code == 0) code = mdb_cursor_open(transaction, database, &cursor);
  const Held<MDB_cursor> held_cursor(cursor);
  MDB_val key, value;
  while (code == 0 && (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
    if (std::string_view(static_cast<const char*>(key.mv_data), key.mv_size) == "__keys__") continue;
    if (!put_entry(key, value)) return fail("cannot copy an entry");
  }
  if (code != MDB_NOTFOUND) return fail(mdb_strerror(code));
  return std::fflush(stdout) == 0 ? 0 : fail("cannot write the entries");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: mlbench-lmdb FILE");
  const rlimit no_core{0, 0};  // a damaged file is no bug to be looked at
  setrlimit(RLIMIT_CORE, &no_core);
  struct stat status;
  if (stat(argv[1], &status) != 0 || !S_ISREG(status.st_mode)) return fail("it is no plain file");
  const auto file_bytes = static_cast<size_t>(status.st_size);
  if (file_bytes < 2 * kLeastPage) return fail("it has " + std::to_string(file_bytes) + " bytes");
  MDB_env* env = nullptr;
  int code = mdb_env_create(&env);
  const Held<MDB_env> held(env);
  if (code == 0) code = mdb_env_set_mapsize(env, file_bytes);
  if (code == 0) code = mdb_env_open(env, argv[1], MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0);
  if (code != 0) return fail(mdb_strerror(code));
  return write_entries(env, file_bytes);
}
