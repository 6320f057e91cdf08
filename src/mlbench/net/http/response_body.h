#pragma once

// An answer as libmicrohttpd reads it: whole, made piece by piece while it is read, or pushed by somebody else. Only
// server.cpp includes this header.

#include <microhttpd.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "mlbench/net/http/budget.h"
#include "mlbench/net/http/message.h"
#include "mlbench/net/http/pool.h"

namespace mlbench::net::http {

// The stream of Response::open_stream. What is pushed waits for its reader, who is cut off when `limit` bytes behind.
class PushedStream final : public Stream {
 public:
  PushedStream(MHD_Connection* connection, int fd, size_t limit, MemoryBudget::Part memory)
      : connection_(connection), fd_(fd), limit_(limit), memory_(std::move(memory)) {}

  bool push(std::string_view data) override;
  size_t room() const override;
  void end() override;

  // Looks whether the reader has left: libmicrohttpd does not look at a connection that waits for us.
  void check_reader();

  // Whether the stream still has a reader.
  bool open() const;

  // The connection's thread calls the next two.
  ssize_t read(char* buffer, size_t size);
  void reader_gone();

 private:
  void finish();
  void wake();

  mutable std::mutex mutex_;
  MHD_Connection* connection_;
  int fd_;  // open while connection_ is set
  size_t limit_;
  MemoryBudget::Part memory_;
  std::string waiting_;
  bool ended_ = false, suspended_ = false;
};

// Each of these bodies holds its part of the budget until libmicrohttpd has sent it. Each function returns null when
// libmicrohttpd has no memory.
MHD_Response* whole_body(std::string text, MemoryBudget::Part memory);
// Response::body followed by what Response::next returns. The pool makes each piece while the connection is suspended.
MHD_Response* pulled_body(MHD_Connection* connection, Pool& pool, bool known, Response response,
                          MemoryBudget::Part memory);
MHD_Response* pushed_body(const std::shared_ptr<PushedStream>& stream);

}  // namespace mlbench::net::http
