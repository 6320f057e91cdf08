#pragma once

// What a guard and its supervisor talk over: a socket of this host, or, where the rank is on another one, a link
// (net/link). The guard is the same, and so are the words (words.h).
//
//   guard        rank; from another host also host
//   supervisor   put..., peers, launch...: before the start, and only to other hosts
//   guard        agent..., asked, launched-end...: beside Open MPI
//   supervisor   start; from now on signal...
//   guard        pid, or error
//   guard        usage...: from another host
//   guard        end; from another host also drained

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::net {
class LinkServer;
}

namespace mlbench::guard {

// An address of a supervisor on another host (variables::kGuard).
inline constexpr std::string_view kLink = "link:";

// Of a message over a socket of this host; what is longer is cut.
inline constexpr size_t kMostMessageBytes = 16384;

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
  // A file of the run's folder, whose pieces the guard puts below its own. IoError where it cannot be read.
  virtual void put(const std::string& /*name*/) {}
  // To a guard's supervisor: what comes into the folders of the run from now on, by a rename, is the rank's.
  virtual void offer_folders() {}
  // As send(), behind all that the rank wrote to its files and folders. At most once.
  virtual void send_behind_files(const std::string& word) { send(word, ""); }
  // The other end is on another host: descriptors do not travel, and files do.
  virtual bool elsewhere() const { return false; }
  enum class Status { kMessage, kNothing, kClosed };
  // Never waits.
  virtual Status receive(Message& message) = 0;
  // Of a link, at the supervisor's end: the rank that its guard proved to be of. -1 elsewhere.
  virtual int rank() const { return -1; }
  // The process at the other end, where that is on this host.
  virtual std::optional<pid_t> peer() const = 0;
};

// The guard's side, of a rank. UserError for an address of no known kind, IoError (CommError over a link) when nobody
// answers there.
struct RankOfRun {
  int rank = 0, size = 1;
  std::string run_id, secret;    // of a link
  std::filesystem::path folder;  // of a link
};
std::unique_ptr<Channel> connect_to(const std::string& address, const RankOfRun& rank);
std::unique_ptr<Channel> connect_by_link(const std::string& host_and_port, const RankOfRun& rank);

// The supervisor's side: where guards come to.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual std::string address() const = 0;  // that guards are told
  virtual int fd() const = 0;               // readable when somebody comes; -1: look now and then
  // The next connection, or null; never waits.
  virtual std::unique_ptr<Channel> accept() = 0;
};

// On this host. Only processes of this user get in: the kernel says whose they are.
class Listener final : public Arrivals {
 public:
  Listener();
  std::string address() const override { return "unix:" + name_; }
  int fd() const override { return socket_.get(); }
  std::unique_ptr<Channel> accept() override;

 private:
  std::string name_;
  FileDescriptor socket_;
};

// From other hosts, over links that outlive this and the channels; a channel that ends says bye.
class LinkArrivals final : public Arrivals {
 public:
  // `rendezvous`: "HOST:PORT" as the ranks' hosts reach the server that the links are made on.
  LinkArrivals(net::LinkServer& links, int size, std::string rendezvous)
      : links_(links), size_(size), rendezvous_(std::move(rendezvous)), taken_(static_cast<size_t>(size)) {}
  std::string address() const override { return "link:" + rendezvous_; }
  int fd() const override { return -1; }
  std::unique_ptr<Channel> accept() override;

 private:
  net::LinkServer& links_;
  int size_;
  std::string rendezvous_;
  std::vector<bool> taken_;
};

}  // namespace mlbench::guard
