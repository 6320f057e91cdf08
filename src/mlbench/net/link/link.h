#pragma once

// The link between a run's supervisor and what stands beside a rank on another host (its guard): words both ways, and
// the files that the rank writes there. It is made on the rendezvous (kv/kv.h), with the same proof, and taken over
// from it (KvServerOptions::take_link).
//
// - A word arrives once, and in its order. Who sends it keeps it until the other side has it.
// - Files are copied by byte ranges, again and again while they grow. Each file of a rank has its own name, given by
//   the server: it takes no other. The client's copy stays where it is; what the server acknowledges it has written.
//   The list's order holds: what a file holds arrives before what a later one held at that time.
// - A connection that breaks, or says nothing for 3 s, is made again by the client, and goes on where the other side
//   is: no gap, nothing twice. Where that does not succeed within the patience (10 s since the last sign of life), the
//   link is lost, for good and for both.
// - Folders that come whole: what appears, by a rename, below some folders that the server names. The client offers
//   each once, again where another takes its place, one after the other and behind the bytes of files; the server
//   writes it under another name, and renames it at its end: whoever reads there finds all of it or nothing.
// - A file of the server's goes the other way in pieces, each a word, of which no more than a few are in memory.
// - A disk without room on the server's side loses nothing: the client offers the same bytes again, each second.
//
// Messages behind the proof, as in kv/wire.h; first, each time, client and server say where they are:
//   client: {"op": "resume", "heard": sequence}
//   server: {"op": "welcome", "heard", "files": [{"name", "kept"}], "folders": [names], "folder": {"number", "kept"}}
//           (kept: -1 where it has no such file; folder: of which it heard last, or null), or
//           {"op": "refused", "error": text}
// Then:
//   both:   {"op": "say", "sequence", "word": bytes, "text": bytes}, answered by {"op": "heard", "sequence"}
//   client: {"op": "file", "name", "offset", "bytes": bytes}
//   server: {"op": "kept", "name", "offset"}: all before the offset; {"op": "later", "name", "offset"}: no more than
//           that (-1: not even the file), try again
//   client: {"op": "folder", "name", "number", "files": [{"name", "bytes"}]}: the next one; "file" with its name and an
//           offset into all its files; and {"op": "whole", "name"}
//   server: "kept" and "later" of its name, and {"op": "whole", "name"}: it is in its place
//   both:   {"op": "beat"} each second
//   server: {"op": "bye"}: it wants no more of this client

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/net/kv/kv.h"

namespace mlbench::net {

inline constexpr std::chrono::seconds kLinkPatience{10};

struct LinkWord {
  std::string word, text;  // bytes
};

enum class LinkStatus { kWord, kNothing, kLost };

struct LinkServerOptions {
  int size = 1;                  // ranks
  std::filesystem::path folder;  // of the run: where the files go
  // Those of a rank, relative to the folder, and on its host to the client's; called once per rank. None may be there.
  std::function<std::vector<std::string>(int rank)> files;
  // More of them, that may be there, and go on behind that: the client's begin with the same bytes.
  std::function<std::vector<std::string>(int rank)> older_files = nullptr;
  // Those below which its folders come whole, likewise.
  std::function<std::vector<std::string>(int rank)> folders = nullptr;
  std::chrono::milliseconds patience = kLinkPatience;  // more than a second: the pace of beats
};

// All calls are thread-safe, and none waits but the destructor (up to 1 s, for those who are told bye).
class LinkServer {
 public:
  explicit LinkServer(LinkServerOptions options);
  ~LinkServer();
  // For KvServerOptions; that server ends before this one.
  void take(ProvedConnection connection);

  bool came(int rank) const;          // ever
  bool within_reach(int rank) const;  // its connection stands, and was not silent for 3 s
  std::string host(int rank) const;   // as it calls itself; "" before it came
  int fd(int rank) const;             // readable when receive() has something to say, or the rank came
  // Of a rank that never came: nothing. Lost follows behind the last word.
  LinkStatus receive(int rank, LinkWord& word);
  void send(int rank, const std::string& word, const std::string& text);
  // A file below the folder, as it is now: as words whose texts are "NAME\nOFFSET SIZE\nBYTES", the last of which
  // reaches its size. IoError where it cannot be read.
  void send_file(int rank, const std::string& word, const std::string& name);
  // Whether some words are still on their way.
  bool has_unheard(int rank) const;
  // Bye: the client is told, and nothing is taken from it any more.
  void close(int rank);
  // What its client said or sent against the protocol, for which the link was lost; "" where it did not.
  std::string fault(int rank) const;
  // Why bytes could not be written, the first time: an IoError, DiskFull where there was no room. Null: they could.
  std::exception_ptr write_error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct LinkClientOptions {
  std::string address;  // of the rendezvous
  int port = 0;
  int rank = 0, size = 1;
  std::string run_id, secret;
  std::filesystem::path folder;  // below it are the files
  std::chrono::milliseconds connect_timeout{30000};
  std::chrono::milliseconds patience = kLinkPatience;
};

// All calls are thread-safe, and none waits but the constructor.
class LinkClient {
 public:
  // Connects and proves. CommTimeout naming the address when nobody answers in time, CommError with the reason of a
  // refusal, UserError when the port is none.
  explicit LinkClient(const LinkClientOptions& options);
  // Ends the connection without a word: what was not acknowledged stays on this host alone.
  ~LinkClient();
  int fd() const;  // readable when receive() has something to say
  // Lost: by bye, by a refusal, or by the time; behind the last word.
  LinkStatus receive(LinkWord& word);
  void send(const std::string& word, const std::string& text);
  // From now on folders are offered: those that are there already are not.
  void offer_folders();
  // As send(), once all that files and folders hold at this moment is with the server. At most once.
  void send_behind_files(const std::string& word, const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlbench::net
