#pragma once

// What a guard and its supervisor talk over: a socket of this host, or, where the rank is on another one, a link
// (net/link). The guard is the same.
//
//   guard       -> supervisor   rank NUMBER              once
//   guard       -> supervisor   host JSON                once, from another host: {"host", "environment", "cores"}, as
//                                                        base/environment.h captures them, "local_rank", "local_size",
//                                                        "node": the host, as the launcher calls it ("" where it does
//                                                        not), "address": by which it reaches the supervisor ("" where
//                                                        it cannot say), "port": one that is free there, "folder":
//                                                        the run's there, the same text from all guards that share
//                                                        it, "build_id": of the rank's program, or null; the guard's
//                                                        is that of "environment"; "gpu": the number of the one that
//                                                        it gives its rank, or null
//   supervisor  -> guard        put NAME NEWLINE OFFSET SIZE NEWLINE BYTES   files of the run's folder on another
//                                                        host, piece by piece, before the start; one that several
//                                                        guards share to one of them, whose rank starts first
//   supervisor  -> guard        peers HOSTS NAME VALUE.. as_one(): where the ranks are, for a command of the user's:
//                                                        what "{hosts}" stands for in its words, and variables of the
//                                                        rank; before the start
//   supervisor  -> guard        start LOGFILE            once, with the descriptors that the rank is to inherit; on
//                                                        another host relative to the run's folder there
//   supervisor  -> guard        launch NAME COMMAND...   as_one(): a program of Open MPI's, to run beside the rank;
//                                                        before the start (openmpi.h)
//   guard       -> supervisor   agent HOST COMMAND       as_one(): such a program wants this of a shell on HOST
//   guard       -> supervisor   asked                    once: such a program wants the rank to run: the start is due
//   guard       -> supervisor   launched-end SIGNAL TEXT as_one(): such a program ended (signal 0: by itself); how, and
//                                                        what was said last
//   guard       -> supervisor   pid NUMBER | error TEXT  the rank runs, in a session of its own; or could not start,
//                                                        or a program of Open MPI's could not
//   guard       -> supervisor   usage MICROSECONDS BYTES usage.h: every 2 s while the rank runs, from another host
//   supervisor  -> guard        signal NUMBER            for the rank's group
//   guard       -> supervisor   end CODE SIGNAL [oom]    how the rank ended (signal 0: by itself; oom: meanwhile the
//                                                        kernel killed a process of its control group, which was out
//                                                        of memory)
//   guard       -> supervisor   drained                  once, from another host: nothing of the rank is left, and all
//                                                        that it wrote has arrived

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
inline constexpr std::string_view kOutOfMemory = " oom";

// Of a message over a socket of this host; what is longer is cut.
inline constexpr size_t kMostMessageBytes = 16384;

// Several texts as the text of one message. IoError where one holds a zero byte: it would become two.
std::string as_one(const std::vector<std::string>& texts);
std::vector<std::string> taken_apart(std::string_view one);

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
