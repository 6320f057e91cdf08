#pragma once

// What both ends of a link share; for nobody else.

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/net/link/link.h"

namespace mlbench::net::link {

inline constexpr std::chrono::seconds kBeat{1};
inline constexpr std::chrono::seconds kSilence{3};  // a connection without a word for so long is a broken one
// Of a "file"; and of all that is under way, so that a slow server has little to keep.
inline constexpr size_t kChunkBytes = size_t{64} << 10;
inline constexpr int64_t kUnderWayBytes = int64_t{1} << 20;
inline constexpr size_t kMessageBytes = size_t{32} << 20;

// Readable while it is raised.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) throw_system_error("cannot create an eventfd", errno);
  }
  int fd() const { return fd_.get(); }
  void ring() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof one);
  }
  void silence() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(fd_.get(), &count, sizeof count);
  }

 private:
  FileDescriptor fd_;
};

// One direction of words, at the end that speaks: numbered from 1, kept until heard.
class Spoken {
 public:
  void add(const std::string& word, const std::string& text) { words_.push_back({++last_, {word, text}}); }
  void heard(int64_t sequence) {
    while (!words_.empty() && words_.front().sequence <= sequence) words_.pop_front();
  }
  void begin_again() { told_ = 0; }  // on a new connection
  // Frames of those that this connection has not been told yet.
  std::string take_frames() {
    std::string frames;
    for (const Word& each : words_) {
      if (each.sequence <= told_) continue;
      told_ = each.sequence;
      frames += wire::encode({{"op", "say"},
                              {"sequence", each.sequence},
                              {"word", wire::to_bytes(each.said.word)},
                              {"text", wire::to_bytes(each.said.text)}});
    }
    return frames;
  }

 private:
  struct Word {
    int64_t sequence = 0;
    LinkWord said;
  };
  std::deque<Word> words_;
  int64_t last_ = 0, told_ = 0;
};

// The same at the end that listens.
class Heard {
 public:
  // True when it is new; else it came a second time.
  bool take(const Json& say) {
    const int64_t sequence = wire::integer_in(say, "sequence");
    if (sequence <= last_) return false;
    if (sequence != last_ + 1) throw wire::ProtocolError("a word is missing");
    words_.push_back({wire::bytes_in(say, "word"), wire::bytes_in(say, "text")});
    last_ = sequence;
    return true;
  }
  int64_t last() const { return last_; }
  bool empty() const { return words_.empty(); }
  LinkWord pop() {
    LinkWord first = std::move(words_.front());
    words_.pop_front();
    return first;
  }
  std::string answer() const { return wire::encode({{"op", "heard"}, {"sequence", last_}}); }

 private:
  std::deque<LinkWord> words_;
  int64_t last_ = 0;
};

}  // namespace mlbench::net::link
