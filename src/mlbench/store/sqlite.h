#pragma once

// SQLite with errors as exceptions. Only store/ includes this header.

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace mlbench::store {

class Database;

// A prepared statement. Bind from index 1, call step() until it returns false, and reset() to use the statement again.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  Statement& bind(int index, int64_t value);
  Statement& bind(int index, double value);
  Statement& bind(int index, std::string_view text);
  Statement& bind_blob(int index, std::string_view bytes);
  Statement& bind_null(int index);
  bool step();  // whether there is a row
  void run();   // to its end, then resets
  void reset();
  bool is_null(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;            // NaN for NULL, which is how bind() stores NaN
  std::string_view text(int column) const;  // valid until the next step
  std::string_view blob(int column) const;

 private:
  void check(int code) const;
  Database& database_;
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement_;
};

// One connection in WAL mode. When a commit returns, the kernel has its data, which then survives this process. One
// thread at a time may use a connection.
class Database {
 public:
  explicit Database(const std::filesystem::path& path, bool read_only = false);
  void execute(const char* sql);
  int64_t last_row_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
  int64_t changes() const { return sqlite3_changes64(handle_.get()); }
  sqlite3* handle() const { return handle_.get(); }
  const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void fail(int code) const;  // throws IoError with path and reason; SystemError where the system failed

 private:
  std::filesystem::path path_;
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> handle_;
};

// Rolls back in the destructor unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace mlbench::store
