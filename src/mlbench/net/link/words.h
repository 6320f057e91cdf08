#pragma once

// What both ends of a link share. Nothing else includes this header.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/system_error.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/net/link/link.h"

namespace mlbench::net::link {

inline constexpr std::chrono::seconds kBeat{1};
inline constexpr std::chrono::seconds kSilence{3};  // a connection without a message for so long is broken
// Bytes in one "file" message, and bytes of all messages under way: a slow server then has little to keep.
inline constexpr size_t kChunkBytes = size_t{64} << 10;
inline constexpr int64_t kUnderWayBytes = int64_t{1} << 20;
inline constexpr size_t kMessageBytes = size_t{32} << 20;  // of a message of the server
// Bytes of one piece of a file that goes as words.
inline constexpr size_t kPieceBytes = size_t{256} << 10;

// A descriptor that is readable from ring() to silence().
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

// A piece of a file, which is read when its word is sent.
struct Piece {
  std::shared_ptr<FileDescriptor> file;
  std::string name;
  int64_t offset = 0, size = 0;  // offset of the piece; size of the whole file
};

// The words that this end sends, numbered from 1. Each is kept until the other end has heard it.
class Spoken {
 public:
  void add(const std::string& word, const std::string& text) { words_.push_back({++last_, {word, text}, {}}); }
  // Adds a file as LinkServer::send_file() sends one.
  void add_file(const std::string& word, const std::string& name, const std::filesystem::path& path) {
    auto file = std::make_shared<FileDescriptor>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!*file || fstat(file->get(), &info) != 0) throw_system_error("cannot read " + path.string(), errno);
    for (int64_t offset = 0; offset == 0 || offset < info.st_size; offset += int64_t{kPieceBytes}) {
      words_.push_back({++last_, {word, ""}, Piece{file, name, offset, info.st_size}});
    }
  }
  void heard(int64_t sequence) {
    while (!words_.empty() && words_.front().sequence <= sequence) words_.pop_front();
  }
  bool empty() const { return words_.empty(); }  // the other end has heard all
  void begin_again() { told_ = 0; }              // for a new connection
  // The frames of words that were not sent on this connection yet; only a few before the other end has heard them.
  // Throws IoError where a piece cannot be read any more.
  std::string take_frames() {
    std::string frames;
    int64_t under_way = 0;
    for (const Word& each : words_) {
      if (under_way >= kUnderWayBytes) break;
      under_way += each.piece ? int64_t{kPieceBytes} : std::ssize(each.said.text);
      if (each.sequence <= told_) continue;
      frames += wire::encode({{"op", "say"},
                              {"sequence", each.sequence},
                              {"word", wire::to_bytes(each.said.word)},
                              {"text", wire::to_bytes(each.piece ? text_of(*each.piece) : each.said.text)}});
      told_ = each.sequence;
    }
    return frames;
  }

 private:
  struct Word {
    int64_t sequence = 0;
    LinkWord said;
    std::optional<Piece> piece;
  };
  static std::string text_of(const Piece& piece) {
    std::string text = piece.name + "\n" + std::to_string(piece.offset) + " " + std::to_string(piece.size) + "\n";
    const size_t head = text.size();
    const auto bytes = static_cast<size_t>(std::min(int64_t{kPieceBytes}, piece.size - piece.offset));
    text.resize(head + bytes);
    const ssize_t count = pread(piece.file->get(), text.data() + head, bytes, piece.offset);
    if (count < 0) throw_system_error("cannot read " + piece.name, errno);
    if (static_cast<size_t>(count) != bytes) throw IoError("cannot read " + piece.name + ": it is shorter than it was");
    return text;
  }
  std::deque<Word> words_;
  int64_t last_ = 0, told_ = 0;
};

// The words that this end receives.
class Heard {
 public:
  // `most_bytes` bounds the text of one word.
  explicit Heard(size_t most_bytes) : most_bytes_(most_bytes) {}
  // Takes a message "say". Returns true when the word is new, and false when it came a second time. Throws PeerFault
  // for what is no word, and when more words wait than anybody reads.
  bool take(const Json& say) {
    const int64_t sequence = wire::integer_in(say, "sequence");
    if (sequence <= last_) return false;
    if (sequence != last_ + 1) throw PeerFault("a word is missing");
    LinkWord word{checked(peer_words::kWord, wire::bytes_in(say, "word")), wire::bytes_in(say, "text")};
    if (word.text.size() > most_bytes_) {
      throw PeerFault(fmt::format("a word of {} bytes: at most {} are expected", word.text.size(), most_bytes_));
    }
    bytes_ += word.text.size();
    words_.push_back(std::move(word));
    if (words_.size() > peer_words::kMostWaiting || bytes_ > std::max(most_bytes_, peer_words::kMostWaitingBytes)) {
      throw PeerFault("it says more than anybody reads");
    }
    last_ = sequence;
    return true;
  }
  int64_t last() const { return last_; }
  bool empty() const { return words_.empty(); }
  LinkWord pop() {
    LinkWord first = std::move(words_.front());
    words_.pop_front();
    bytes_ -= first.text.size();
    return first;
  }
  std::string answer() const { return wire::encode({{"op", "heard"}, {"sequence", last_}}); }

 private:
  const size_t most_bytes_;
  size_t bytes_ = 0;  // of the words that wait
  std::deque<LinkWord> words_;
  int64_t last_ = 0;
};

}  // namespace mlbench::net::link
