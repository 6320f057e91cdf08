#pragma once

// The channel between a guard and its supervisor: a socket of this host or, where the rank is on another host, a link
// (net/link). The guard and the words (words.h) are the same for both. The words come in this order:
//
//   guard        rank; from another host also host
//   supervisor   put..., peers, launch...: before the start, and only to other hosts
//   guard        agent..., asked, launched-end...: beside Open MPI
//   supervisor   start; from now on signal...
//   guard        pid, or error
//   guard        usage..., energy...: from another host
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

// How the address of a supervisor on another host begins (variables::kGuard).
inline constexpr std::string_view kLink = "link:";

// The most bytes of a message over a socket of this host; a longer message is cut.
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
  // Sends a message. Throws IoError when the other end is gone.
  virtual void send(const std::string& word, const std::string& text, std::span<const int> descriptors = {}) = 0;
  // At the supervisor's end of a link: sends a file of the run's folder, which the guard writes below its own folder.
  // Throws IoError where the file cannot be read. Elsewhere does nothing.
  virtual void put(const std::string& /*name*/) {}
  // At a guard's end of a link: from now on, a folder that a rename brings into the rank's folders is the rank's, and
  // is sent. Elsewhere does nothing.
  virtual void offer_folders() {}
  // Sends a word once all that the rank wrote to its files and folders has arrived. May be called once.
  virtual void send_behind_files(const std::string& word) { send(word, ""); }
  // Whether the other end is on another host: then descriptors do not travel, and files do.
  virtual bool elsewhere() const { return false; }
  enum class Status { kMessage, kNothing, kClosed };
  // Takes the next message. Never waits.
  virtual Status receive(Message& message) = 0;
  // At the supervisor's end of a link: the rank that the guard proved to be of. Elsewhere -1.
  virtual int rank() const { return -1; }
  // The process at the other end, where that is on this host.
  virtual std::optional<pid_t> peer() const = 0;
};

// The rank of a guard that connects.
struct RankOfRun {
  int rank = 0, size = 1;
  std::string run_id, secret;    // for a link
  std::filesystem::path folder;  // for a link: the run's folder on this host
};
// The guard's side: connects to the supervisor. Throws UserError for an address of no known kind, and IoError
// (CommError over a link) when nobody answers there.
std::unique_ptr<Channel> connect_to(const std::string& address, const RankOfRun& rank);
std::unique_ptr<Channel> connect_by_link(const std::string& host_and_port, const RankOfRun& rank);

// The supervisor's side: accepts the connections of guards.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual std::string address() const = 0;  // what guards are told
  virtual int fd() const = 0;               // readable when a guard connects; -1: call accept() now and then
  // The next connection, or null; never waits.
  virtual std::unique_ptr<Channel> accept() = 0;
};

// Accepts guards of this host. Only processes of this user get in: the kernel says whose they are.
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

// Accepts guards of other hosts, over links that outlive this object and the channels. A channel that ends says bye to
// its guard.
class LinkArrivals final : public Arrivals {
 public:
  // `size` is the number of ranks. `rendezvous` is the "HOST:PORT" by which the ranks' hosts reach the server on which
  // the links are made. Precondition: `links` outlives this object and its channels.
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
