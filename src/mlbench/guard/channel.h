#pragma once

// What a guard and its supervisor talk over. Today a socket of this host; a launcher that puts ranks on other hosts
// brings another Channel, and the guard stays as it is.
//
//   guard       -> supervisor   rank NUMBER              once
//   supervisor  -> guard        start LOGFILE            once, with the descriptors that the rank is to inherit
//   guard       -> supervisor   pid NUMBER | error TEXT  the rank runs, in a session of its own; or could not start
//   supervisor  -> guard        signal NUMBER            for the rank's group
//   guard       -> supervisor   end CODE SIGNAL          how the rank ended (signal 0: by itself)

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::guard {

// The environment variable with the address of the supervisor: "unix:NAME".
inline constexpr const char* kAddressVariable = "MLBENCH_GUARD";

struct Message {
  std::string word, text;
  std::vector<FileDescriptor> descriptors;
};

// One end of a connection.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual int fd() const = 0;  // readable when receive() has something to say
  // IoError when the other end is gone.
  virtual void send(const std::string& word, const std::string& text, std::span<const int> descriptors = {}) = 0;
  enum class Status { kMessage, kNothing, kClosed };
  // Never waits.
  virtual Status receive(Message& message) = 0;
  // The process at the other end, where that is on this host.
  virtual std::optional<pid_t> peer() const = 0;
};

// The guard's side. UserError for an address of no known kind, IoError when nobody listens there.
std::unique_ptr<Channel> connect_to(const std::string& address);

// The supervisor's side. Only processes of this user get in: the kernel says whose they are.
class Listener {
 public:
  Listener();
  std::string address() const { return "unix:" + name_; }
  int fd() const { return socket_.get(); }
  // The next connection, or null; never waits.
  std::unique_ptr<Channel> accept();

 private:
  std::string name_;
  FileDescriptor socket_;
};

}  // namespace mlbench::guard
