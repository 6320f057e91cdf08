#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/printable.h"
#include "mlbench/net/kv/greeting.h"
#include "mlbench/net/link/folder_taker.h"
#include "mlbench/net/link/link.h"
#include "mlbench/net/link/words.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kServerTick{100};
// A client that is sent away has this long to read why.
constexpr Milliseconds kLinkFarewell{1000};
constexpr size_t kMostUnsentLinkBytes = size_t{16} << 20;

struct KeptFile {
  std::string name = {};
  bool is_older = false;
  FileDescriptor file = {};
  int64_t kept = -1;  // bytes; -1: it is not there
};

struct LinkedRank {
  int rank = 0;
  std::optional<std::string> session;  // set once the client came
  std::string host;
  link::Bell bell;
  link::Heard heard{peer_words::kMostSaidBytes};
  link::Spoken spoken;
  std::vector<KeptFile> files;
  std::vector<std::string> folders;
  std::optional<link::FolderTaker> folder;  // the last one
  SteadyClock::time_point last_sign;
  bool lost = false, closed = false;
  std::string fault;  // for which it is lost
  // The connection, where there is one.
  FileDescriptor socket;
  std::string peer, output;
  wire::FrameReader input;
  bool welcomed = false;
  SteadyClock::time_point last_sent;
};

// A connection that was sent away. Its client is to read what was sent; what the client still sends is ignored.
struct Leaving {
  FileDescriptor socket;
  SteadyClock::time_point until;
};

}  // namespace

struct LinkServer::State {
  explicit State(LinkServerOptions given) : options(std::move(given)), clients(static_cast<size_t>(options.size)) {
    for (int rank = 0; rank < options.size; ++rank) clients[static_cast<size_t>(rank)].rank = rank;
    thread = std::thread([this] { serve(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      end = SteadyClock::now() + kLinkFarewell;
      for (LinkedRank& client : clients) close(client);
    }
    wakeup.ring();
    thread.join();
  }

  const LinkServerOptions options;
  link::Bell wakeup;

  mutable std::mutex mutex;  // guards what follows
  std::vector<LinkedRank> clients;
  std::vector<ProvedConnection> arrivals;
  std::vector<Leaving> leaving;
  std::exception_ptr write_error;
  std::optional<SteadyClock::time_point> end;

  std::thread thread;

  LinkedRank& client(int rank) { return clients.at(static_cast<size_t>(rank)); }

  // ---- the serving thread ----------------------------------------------------------------------------------------

  void serve() {
    block_signals_on_this_thread();
    for (;;) {
      std::vector<pollfd> polled = {{wakeup.fd(), POLLIN, 0}};
      {
        const std::lock_guard lock(mutex);
        for (const LinkedRank& each : clients) {
          polled.push_back({each.socket.get(), static_cast<short>(each.output.empty() ? POLLIN : POLLIN | POLLOUT), 0});
        }
        for (const Leaving& each : leaving) polled.push_back({each.socket.get(), POLLIN, 0});
      }
      poll(polled.data(), polled.size(), static_cast<int>(kServerTick.count()));
      wakeup.silence();
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < clients.size(); ++i) {
        if (clients[i].socket && (polled[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(clients[i]);
      }
      let_leave();
      for (ProvedConnection& connection : std::exchange(arrivals, {})) admit(std::move(connection));
      for (LinkedRank& each : clients) tend(each);
      if (!end) continue;
      const bool all_gone =
          leaving.empty() && std::ranges::none_of(clients, [](const auto& c) { return bool(c.socket); });
      if (all_gone || SteadyClock::now() >= *end) return;
    }
  }

  void admit(ProvedConnection connection) {
    LinkedRank& known = client(connection.rank);
    std::string refusal;
    if (known.closed || known.lost || end) {
      refusal = fmt::format("rank {} is given up already", known.rank);
    } else if (known.session && *known.session != connection.session) {
      refusal = fmt::format("rank {} has a link already, to {}", known.rank, known.host);
    }
    if (!refusal.empty()) {
      spdlog::warn("link: refused {}: {}", printable(connection.peer), refusal);
      const std::string frame = wire::encode({{"op", "refused"}, {"error", refusal}});
      [[maybe_unused]] const ssize_t sent = ::send(connection.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
      return send_away(std::move(connection.socket));
    }
    const auto now = SteadyClock::now();
    if (!known.session) {
      known.session = connection.session;
      known.host = connection.host;
      name_files(known);
      known.bell.ring();
    }
    known.socket = std::move(connection.socket);
    known.peer = std::move(connection.peer);
    known.input = {};
    known.output.clear();
    known.welcomed = false;
    known.spoken.begin_again();
    known.last_sign = known.last_sent = now;
  }

  void name_files(LinkedRank& known) const {
    for (std::string& name : options.files(known.rank)) known.files.push_back({.name = std::move(name)});
    if (options.older_files) {
      for (std::string& name : options.older_files(known.rank)) {
        const int64_t kept = size_here(name);
        known.files.push_back({.name = std::move(name), .is_older = true, .file = {}, .kept = kept});
      }
    }
    if (options.folders) known.folders = options.folders(known.rank);
  }

  void receive(LinkedRank& from) {
    try {
      if (!wire::read_into(from.socket.get(), from.input)) return from.socket.reset();
      from.last_sign = SteadyClock::now();
      if (from.closed) return;
      while (const auto message = from.input.next(peer_words::kMostGuardFrame)) handle(from, *message);
    } catch (const PeerFault& fault) {
      blame(from, fault.what());
    } catch (const CommError&) {
      from.socket.reset();
    } catch (const std::exception& error) {
      blame(from, error.what());  // whatever its words lead to, this ends its own link alone
    }
  }

  // Puts the loss of the link down to the client, which would say the same again.
  static void blame(LinkedRank& from, const std::string& fault) {
    spdlog::error("link: rank {} at {}: {}", from.rank, from.peer, printable(fault));
    from.fault = reason_of(peer_words::kReason, fault);
    lose(from);
  }

  void handle(LinkedRank& from, const Json& message) {
    const std::string operation = wire::text_in(message, "op");
    if (!from.welcomed) {
      if (operation != "resume") throw wire::ProtocolError("a message '" + operation + "', not 'resume'");
      return welcome(from, wire::integer_in(message, "heard"));
    }
    if (operation == "say") {
      if (from.heard.take(message)) from.bell.ring();
      from.output += from.heard.answer();
    } else if (operation == "heard") {
      from.spoken.heard(wire::integer_in(message, "sequence"));
    } else if (operation == "file") {
      take_bytes(from, wire::text_in(message, "name"), wire::integer_in(message, "offset"),
                 wire::bytes_in(message, "bytes"));
    } else if (operation == "folder") {
      from.folder.reset();
      from.folder.emplace(options.folder, from.folders, message);
    } else if (operation == "whole") {
      finish_folder(from, wire::text_in(message, "name"));
    } else if (operation != "beat") {
      throw wire::ProtocolError("operation '" + operation + "': expected say, heard, file, folder, whole or beat");
    }
  }

  static void welcome(LinkedRank& from, int64_t heard) {
    from.spoken.heard(heard);
    Json files = Json::array();
    for (const KeptFile& each : from.files) files.push_back({{"name", each.name}, {"kept", each.kept}});
    const Json folder =
        from.folder ? Json{{"number", from.folder->number()}, {"kept", from.folder->kept()}} : Json(nullptr);
    from.output += wire::encode({{"op", "welcome"},
                                 {"heard", from.heard.last()},
                                 {"files", files},
                                 {"folders", from.folders},
                                 {"folder", folder}});
    from.welcomed = true;
  }

  void take_bytes(LinkedRank& from, const std::string& name, int64_t offset, std::string_view bytes) {
    if (offset < 0 || bytes.size() > link::kChunkBytes) {
      throw PeerFault(fmt::format("{} bytes at offset {} of '{}'", bytes.size(), offset, printable(name)));
    }
    if (from.folder && from.folder->name() == name) {
      link::FolderTaker& folder = *from.folder;
      return take_behind(
          from, name, offset, bytes, [&] { return folder.kept(); },
          [&](std::string_view fresh) { folder.write(fresh); });
    }
    const auto file = std::ranges::find(from.files, name, &KeptFile::name);
    if (file == from.files.end()) throw wire::ProtocolError(fmt::format("'{}' is none of its files", name));
    take_behind(
        from, name, offset, bytes, [&] { return file->kept; }, [&](std::string_view fresh) { write(*file, fresh); });
  }

  // Writes those of the bytes that are not kept yet.
  template <typename Kept, typename Write>
  void take_behind(LinkedRank& from, const std::string& name, int64_t offset, std::string_view bytes, Kept kept,
                   Write write_fresh) {
    const int64_t before = std::max<int64_t>(kept(), 0);
    bool later = offset > before;  // the bytes come after others for which there was no room
    const auto known = static_cast<size_t>(std::max<int64_t>(before - offset, 0));
    if (!later && (kept() < 0 || known < bytes.size())) {
      later = !is_written(from, [&] { write_fresh(bytes.substr(std::min(known, bytes.size()))); });
    }
    from.output += wire::encode({{"op", later ? "later" : "kept"}, {"name", name}, {"offset", kept()}});
  }

  void finish_folder(LinkedRank& from, const std::string& name) {
    if (!from.folder || from.folder->name() != name) {
      throw wire::ProtocolError(fmt::format("'{}' is whole, and has not begun", name));
    }
    const bool whole = is_written(from, [&] { from.folder->finish(); });
    from.output += whole ? wire::encode({{"op", "whole"}, {"name", name}})
                         : wire::encode({{"op", "later"}, {"name", name}, {"offset", from.folder->kept()}});
  }

  template <typename Write>
  bool is_written(LinkedRank& from, Write write_it) {
    try {
      write_it();
      return true;
    } catch (const IoError& error) {
      if (!write_error) {
        write_error = std::current_exception();
        spdlog::error("link: {}", error.what());
        from.bell.ring();
      }
      return false;
    }
  }

  int64_t size_here(const std::string& name) const {
    std::error_code error;
    const auto size = std::filesystem::file_size(options.folder / name, error);
    return error ? -1 : static_cast<int64_t>(size);
  }

  void write(KeptFile& file, std::string_view bytes) const {
    const std::filesystem::path path = options.folder / file.name;
    if (!file.file) {
      make_folder(path.parent_path());
      const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (file.is_older ? 0 : O_EXCL);
      file.file = FileDescriptor(open(path.c_str(), flags, 0666));
      if (!file.file) throw_system_error("cannot create " + path.string(), errno);
      file.kept = std::max<int64_t>(file.kept, 0);
    }
    while (!bytes.empty()) {
      const ssize_t count = pwrite(file.file.get(), bytes.data(), bytes.size(), file.kept);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_system_error("cannot write " + path.string(), errno);
      file.kept += count;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

  // Sends what is to be sent, and acts on deadlines that have passed.
  void tend(LinkedRank& one) {
    const auto now = SteadyClock::now();
    if (one.socket) {
      if (one.welcomed && !one.closed) take_frames(one);
      if (one.welcomed && !one.closed && one.output.empty() && now - one.last_sent >= link::kBeat) {
        one.output = wire::encode({{"op", "beat"}});
      }
      if (!one.output.empty()) send_output(one, now);
      if (one.socket && (now - one.last_sign > link::kSilence || one.output.size() > kMostUnsentLinkBytes)) {
        one.socket.reset();
      }
      if (one.socket && one.closed && one.output.empty()) send_away(std::move(one.socket));
    }
    if (one.session && !one.lost && !one.closed && now - one.last_sign > options.patience) lose(one);
  }

  static void take_frames(LinkedRank& one) {
    try {
      one.output += one.spoken.take_frames();
    } catch (const IoError& error) {
      spdlog::error("link: rank {}: {}", one.rank, error.what());
      lose(one);
    }
  }

  static void send_output(LinkedRank& to, SteadyClock::time_point now) {
    const ssize_t count = ::send(to.socket.get(), to.output.data(), to.output.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return to.socket.reset();
    if (count <= 0) return;
    to.output.erase(0, static_cast<size_t>(count));
    to.last_sent = now;
  }

  static void lose(LinkedRank& one) {
    one.lost = true;
    one.folder.reset();
    one.socket.reset();
    one.bell.ring();
  }

  static void close(LinkedRank& one) {
    if (one.closed) return;
    one.closed = true;
    if (!one.socket) return;
    take_frames(one);
    one.output += wire::encode({{"op", "bye"}});
  }

  // Unread input would turn closing into a reset, which overtakes what was sent.
  void send_away(FileDescriptor socket) {
    shutdown(socket.get(), SHUT_WR);
    leaving.push_back({std::move(socket), SteadyClock::now() + kLinkFarewell});
  }

  void let_leave() {
    std::erase_if(leaving, [](const Leaving& each) {
      char buffer[65536];
      const ssize_t count = recv(each.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      const bool there = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
      return !there || SteadyClock::now() >= each.until;
    });
  }
};

LinkServer::LinkServer(LinkServerOptions options) {
  MLBENCH_CHECK(options.size >= 1 && options.files, "a link needs ranks, and the names of their files");
  state_ = std::make_unique<State>(std::move(options));
}

LinkServer::~LinkServer() = default;

void LinkServer::take(ProvedConnection connection) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->arrivals.push_back(std::move(connection));
  }
  state_->wakeup.ring();
}

bool LinkServer::came(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return state_->client(rank).session.has_value();
}

bool LinkServer::within_reach(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return bool(state_->client(rank).socket);
}

std::string LinkServer::host(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return state_->client(rank).host;
}

int LinkServer::fd(int rank) const { return state_->client(rank).bell.fd(); }

LinkStatus LinkServer::receive(int rank, LinkWord& word) {
  const std::lock_guard lock(state_->mutex);
  LinkedRank& client = state_->client(rank);
  if (!client.heard.empty()) {
    word = client.heard.pop();
    return LinkStatus::kWord;
  }
  if (client.lost) return LinkStatus::kLost;
  client.bell.silence();
  return LinkStatus::kNothing;
}

void LinkServer::send(int rank, const std::string& word, const std::string& text) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->client(rank).spoken.add(word, text);
  }
  state_->wakeup.ring();
}

void LinkServer::send_file(int rank, const std::string& word, const std::string& name) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->client(rank).spoken.add_file(word, name, state_->options.folder / name);
  }
  state_->wakeup.ring();
}

bool LinkServer::has_unheard(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return !state_->client(rank).spoken.empty();
}

void LinkServer::close(int rank) {
  {
    const std::lock_guard lock(state_->mutex);
    State::close(state_->client(rank));
  }
  state_->wakeup.ring();
}

std::string LinkServer::fault(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return state_->client(rank).fault;
}

std::exception_ptr LinkServer::write_error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->write_error;
}

}  // namespace mlbench::net
