#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/net/kv/greeting.h"
#include "mlbench/net/link/folder_sender.h"
#include "mlbench/net/link/link.h"
#include "mlbench/net/link/words.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kClientTick{100};
constexpr Milliseconds kOneConnectPatience{2000};
constexpr Milliseconds kLookInterval{200};
constexpr Milliseconds kNoRoomPause{1000};
constexpr size_t kMostWaitingBytes = size_t{256} << 10;

struct GrowingFile {
  std::string name;
  std::filesystem::path path;
  FileDescriptor file;
  // Sizes in bytes; -1 means that there is no such file. An empty file is more than none.
  int64_t kept = -1;  // by the server
  int64_t sent = -1;
  int64_t seen = -1;  // its size at the last look
};

int64_t size_of(const std::filesystem::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

}  // namespace

struct LinkClient::State {
  explicit State(const LinkClientOptions& given)
      : options(given), server(endpoint_text(given.address, given.port)), last_sign(SteadyClock::now()) {
    std::string reason;
    if (!join(deadline_after(options.connect_timeout), reason)) {
      throw CommTimeout(fmt::format("rank {}: no link to the supervisor at {} within {}: {}", options.rank, server,
                                    duration_text(options.connect_timeout), reason));
    }
    thread = std::thread([this] { run(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
      changed.notify_all();
    }
    wakeup.ring();
    thread.join();
  }

  const LinkClientOptions options;
  const std::string server;
  const std::string session = make_nonce();
  link::Bell wakeup, bell;

  // What follows is used by the thread alone.
  FileDescriptor socket;
  wire::FrameReader input;
  std::string output;
  bool welcomed = false;
  SteadyClock::time_point last_sign, last_sent, next_look, pause_until;
  std::vector<GrowingFile> files;
  size_t current = 0;                        // the file that is being sent, within this look at all files
  bool looked_behind = false;                // since send_behind_files()
  std::optional<link::FolderSender> folder;  // that is being sent
  int64_t folders_sent = 0;
  std::string given_up;  // a folder that could not be read to its end

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  link::Heard heard{link::kMessageBytes};
  link::Spoken spoken;
  std::optional<LinkWord> behind_files;
  std::vector<std::string> folders;               // below which they are
  std::optional<link::SeenFolders> seen_folders;  // empty: none is offered yet
  bool closing = false, lost = false;

  std::thread thread;

  // ---- connecting ------------------------------------------------------------------------------------------------

  // Returns false, with the reason, when the time has passed or the client is closed.
  bool join(SteadyClock::time_point deadline, std::string& reason) {
    NoWay no_way;
    const auto attempt = [&] {
      const auto soon = std::min(deadline, deadline_after(kOneConnectPatience));
      int error = 0;
      socket = connect_to(options.address, options.port, soon, reason, &error);
      if (socket && greet(soon, reason)) return true;
      if (no_way.lasts(error)) {
        throw CommError(fmt::format("rank {}: no way to the supervisor at {}: {}", options.rank, server, reason));
      }
      return false;
    };
    return wire::try_again(attempt, deadline, [this](Milliseconds pause) {
      std::unique_lock lock(mutex);
      return !changed.wait_for(lock, pause, [this] { return closing; });
    });
  }

  bool greet(SteadyClock::time_point deadline, std::string& reason) {
    input = {};
    Json hello = wire::hello_of({session, options.run_id, options.rank, options.size});
    hello["for"] = "link";
    try {
      return wire::prove(socket.get(), input, hello, options.secret, deadline, reason);
    } catch (const wire::Refusal& refusal) {
      throw CommError(
          fmt::format("rank {}: refused a link by the supervisor at {}: {}", options.rank, server, refusal.what()));
    } catch (const wire::ProtocolError& error) {
      throw CommError(fmt::format("rank {}: what answers at {} is no supervisor of mlbench: {}", options.rank, server,
                                  error.what()));
    }
  }

  // ---- the thread ------------------------------------------------------------------------------------------------

  void run() {
    block_signals_on_this_thread();
    try {
      do {
        last_sign = SteadyClock::now();  // it has just proved itself
        try {
          if (!talk()) break;
        } catch (const wire::ProtocolError&) {
          break;  // it would refuse again
        } catch (const CommError&) {
          // The connection broke.
        }
      } while (come_again());
    } catch (const std::exception&) {
      // The server refused, so the link is given up already.
    }
    socket.reset();
    const std::lock_guard lock(mutex);
    lost = true;
    bell.ring();
  }

  bool come_again() {
    std::string reason;
    return join(last_sign + options.patience, reason);
  }

  // Returns false when the link is over. Returns true, or throws CommError, when the connection is broken.
  bool talk() {
    begin_to_talk();
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (closing) return false;
        if (welcomed) output += spoken.take_frames();
      }
      if (welcomed) offer_files();
      if (output.empty() && SteadyClock::now() - last_sent >= link::kBeat) output = wire::encode({{"op", "beat"}});
      pollfd polled[] = {{wakeup.fd(), POLLIN, 0},
                         {socket.get(), static_cast<short>(output.empty() ? POLLIN : POLLIN | POLLOUT), 0}};
      poll(polled, 2, static_cast<int>(kClientTick.count()));
      wakeup.silence();
      if ((polled[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        if (!wire::read_into(socket.get(), input)) return true;
        last_sign = SteadyClock::now();
        while (const auto message = input.next(link::kMessageBytes)) {
          if (!handle(*message)) return false;
        }
      }
      if (!output.empty()) send_output();
      if (SteadyClock::now() - last_sign > link::kSilence) return true;
    }
  }

  void begin_to_talk() {
    const std::lock_guard lock(mutex);
    welcomed = false;
    spoken.begin_again();
    output = wire::encode({{"op", "resume"}, {"heard", heard.last()}});
    last_sent = SteadyClock::now();
  }

  void send_output() {
    const ssize_t count = ::send(socket.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) throw CommError(errno_text(errno));
    if (count <= 0) return;
    output.erase(0, static_cast<size_t>(count));
    last_sent = SteadyClock::now();
  }

  // Returns false when the server wants no more.
  bool handle(const Json& message) {
    const std::string operation = wire::text_in(message, "op");
    if (operation == "bye" || operation == "refused") return false;
    if (operation == "welcome") {
      take_welcome(message);
    } else if (operation == "say") {
      const std::lock_guard lock(mutex);
      if (heard.take(message)) bell.ring();
      output += heard.answer();
    } else if (operation == "heard") {
      const std::lock_guard lock(mutex);
      spoken.heard(wire::integer_in(message, "sequence"));
    } else if (operation == "kept" || operation == "later") {
      take_answer(wire::text_in(message, "name"), wire::integer_in(message, "offset"), operation == "kept");
    } else if (operation == "whole") {
      if (folder && folder->name() == wire::text_in(message, "name")) folder.reset();
    } else if (operation != "beat") {
      throw wire::ProtocolError("operation '" + operation + "'");
    }
    return true;
  }

  void take_welcome(const Json& message) {
    {
      const std::lock_guard lock(mutex);
      spoken.heard(wire::integer_in(message, "heard"));
    }
    const auto given = message.find("files");
    if (given == message.end() || !given->is_array()) throw wire::ProtocolError("a welcome without files");
    take_folders(message);
    std::vector<GrowingFile> known = std::exchange(files, {});
    for (const Json& each : *given) {
      const std::string name = wire::text_in(each, "name");
      const auto old = std::ranges::find(known, name, &GrowingFile::name);
      GrowingFile file = old != known.end() ? std::move(*old) : GrowingFile{name, options.folder / name, {}};
      file.kept = file.sent = wire::integer_in(each, "kept");
      files.push_back(std::move(file));
    }
    current = files.size();
    next_look = pause_until = {};
    welcomed = true;
  }

  void take_folders(const Json& welcome) {
    {
      const std::lock_guard lock(mutex);
      folders.clear();
      for (const Json& each : welcome.value("folders", Json::array())) {
        if (!each.is_string()) throw wire::ProtocolError("a folder without a name");
        folders.push_back(each.get<std::string>());
      }
    }
    const Json last = welcome.value("folder", Json());
    if (!folder) return;
    const bool known = last.is_object() && wire::integer_in(last, "number") == folder->number();
    folder->begin_again(known ? wire::integer_in(last, "kept") : -1);
  }

  void take_answer(const std::string& name, int64_t offset, bool kept) {
    if (folder && folder->name() == name) {
      kept ? folder->kept(offset) : folder->later(offset);
      if (!kept) pause_until = SteadyClock::now() + kNoRoomPause;
      return;
    }
    const auto file = std::ranges::find(files, name, &GrowingFile::name);
    if (file == files.end() && name == given_up) return;
    if (file == files.end()) throw wire::ProtocolError("an answer about '" + name + "'");
    file->kept = std::max(file->kept, offset);
    if (kept) return;
    file->sent = file->kept;
    current = 0;
    pause_until = SteadyClock::now() + kNoRoomPause;
  }

  // ---- files -----------------------------------------------------------------------------------------------------

  void offer_files() {
    const auto now = SteadyClock::now();
    if (now < pause_until) return;
    if (current == files.size()) {
      say_what_is_behind();
      if (now >= next_look) {
        look();
        next_look = now + kLookInterval;
      }
    }
    for (; current < files.size(); ++current) {
      GrowingFile& file = files[current];
      while (file.sent < file.seen) {
        if (is_full()) return;
        offer(file);
      }
    }
    offer_folder();
  }

  bool is_full() const { return under_way() >= link::kUnderWayBytes || output.size() >= kMostWaitingBytes; }

  void offer_folder() {
    try {
      while (folder && !is_full()) {
        const std::string frame = folder->take_frame(link::kChunkBytes);
        if (frame.empty()) return;
        output += frame;
      }
    } catch (const IoError&) {
      given_up = folder->name();
      folder.reset();  // the server drops what is not whole
    }
  }

  // Reads the sizes in reverse order: an earlier file then contains all that a later file tells of.
  void look() {
    const std::lock_guard lock(mutex);
    looked_behind = behind_files.has_value();
    look_at_folders();
    for (auto file = files.rbegin(); file != files.rend(); ++file) file->seen = size_of(file->path);
    current = 0;
  }

  void look_at_folders() {
    while (!folder && seen_folders) {
      const auto name = seen_folders->next(options.folder, folders);
      if (!name) return;
      try {
        folder.emplace(options.folder, *name, ++folders_sent);
      } catch (const IoError&) {
        // The folder is gone: look at the next one.
      }
    }
  }

  void offer(GrowingFile& file) {
    if (!file.file) file.file = FileDescriptor(open(file.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const int64_t begin = std::max<int64_t>(file.sent, 0);
    std::string bytes(std::min(link::kChunkBytes, static_cast<size_t>(file.seen - begin)), '\0');
    const ssize_t count = file.file ? pread(file.file.get(), bytes.data(), bytes.size(), begin) : -1;
    if (count < 0 || (count == 0 && file.seen > begin)) {
      file.seen = file.sent;  // nothing is there any more: the next look will tell
      return;
    }
    bytes.resize(static_cast<size_t>(count));
    output += wire::encode({{"op", "file"}, {"name", file.name}, {"offset", begin}, {"bytes", wire::to_bytes(bytes)}});
    file.sent = begin + count;
  }

  int64_t under_way() const {
    int64_t bytes = folder ? folder->under_way() : 0;
    for (const GrowingFile& file : files) bytes += file.sent - file.kept;
    return bytes;
  }

  void say_what_is_behind() {
    const bool all_kept = std::ranges::all_of(files, [](const GrowingFile& file) { return file.kept >= file.seen; });
    if (!looked_behind || !all_kept || folder) return;
    const std::lock_guard lock(mutex);
    look_at_folders();
    if (!behind_files || folder) return;
    spoken.add(behind_files->word, behind_files->text);
    behind_files.reset();
    looked_behind = false;
    output += spoken.take_frames();
  }
};

LinkClient::LinkClient(const LinkClientOptions& options) {
  if (options.port < 1 || options.port > 65535) {
    throw UserError(fmt::format("link: port {}: expected 1 to 65535", options.port));
  }
  state_ = std::make_unique<State>(options);
}

LinkClient::~LinkClient() = default;

int LinkClient::fd() const { return state_->bell.fd(); }

LinkStatus LinkClient::receive(LinkWord& word) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->heard.empty()) {
    word = state_->heard.pop();
    return LinkStatus::kWord;
  }
  if (state_->lost) return LinkStatus::kLost;
  state_->bell.silence();
  return LinkStatus::kNothing;
}

void LinkClient::send(const std::string& word, const std::string& text) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->spoken.add(word, text);
  }
  state_->wakeup.ring();
}

void LinkClient::offer_folders() {
  const std::lock_guard lock(state_->mutex);
  link::SeenFolders& seen = state_->seen_folders.emplace();
  while (seen.next(state_->options.folder, state_->folders)) {
  }
}

void LinkClient::send_behind_files(const std::string& word, const std::string& text) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->behind_files = LinkWord{word, text};
  }
  state_->wakeup.ring();
}

}  // namespace mlbench::net
