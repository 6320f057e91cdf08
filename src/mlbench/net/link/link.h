#pragma once

// The link between a run's supervisor and what stands beside a rank on another host (the rank's guard). The link
// carries words both ways, and the files that the rank writes. A link is made on the rendezvous (kv/kv.h) with the same
// proof, and taken over from there (KvServerOptions::take_link).
//
// - A word arrives once, and in its order. Its sender keeps it until the other side has it.
// - Files are copied by byte ranges, again and again while they grow. The server gives each file of a rank a name of
//   its own, and takes no other file. The client's copy stays where it is; the server has written what it acknowledges.
//   The order of the list holds: what a file contains arrives before what a later file contained at that time.
// - When a connection breaks or says nothing for 3 s, the client makes it again, and it goes on where the other side
//   is: no gap, nothing twice. When that does not succeed within the patience (10 s since the last sign of life), the
//   link is lost, for good and for both sides.
// - Some folders arrive whole: those that appear, by a rename, below parent folders that the server names. The client
//   offers each once, and again where another takes its place; one after the other, behind the bytes of files. The
//   server writes the folder under another name and renames it at the end: a reader there finds all of it or nothing.
// - A file of the server goes the other way in pieces. Each piece is a word, and only a few are in memory at a time.
// - A disk without room on the server's side loses nothing: the client offers the same bytes again, once a second.
//
// The messages after the proof are made as in kv/wire.h. On each connection, both sides first say where they are:
//   client: {"op": "resume", "heard": sequence}
//   server: {"op": "welcome", "heard", "files": [{"name", "kept"}], "folders": [names], "folder": {"number", "kept"}}
//           (kept: -1 where the server has no such file; folder: the last that it heard of, or null), or
//           {"op": "refused", "error": text}
// Then:
//   both:   {"op": "say", "sequence", "word": bytes, "text": bytes}, answered by {"op": "heard", "sequence"}
//   client: {"op": "file", "name", "offset", "bytes": bytes}
//   server: {"op": "kept", "name", "offset"}: it has all before the offset; {"op": "later", "name", "offset"}: it has
//           no more than that (-1: not even the file), and the client is to try again
//   client: {"op": "folder", "name", "number", "files": [{"name", "bytes"}]}: the next folder; then "file" with the
//           folder's name and an offset into all its files together; then {"op": "whole", "name"}
//   server: "kept" and "later" with the folder's name, and {"op": "whole", "name"}: the folder is in its place
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
  int size = 1;                  // number of ranks
  std::filesystem::path folder;  // the run's folder, in which the files are written
  // The names of a rank's files, relative to `folder` here and to the client's folder on the rank's host. Called once
  // per rank. None of these files may exist yet.
  std::function<std::vector<std::string>(int rank)> files;
  // The names of more files of a rank, which may exist and are continued: the client's files begin with the same bytes.
  std::function<std::vector<std::string>(int rank)> older_files = nullptr;
  // The names of the parent folders below which a rank's folders arrive whole.
  std::function<std::vector<std::string>(int rank)> folders = nullptr;
  std::chrono::milliseconds patience = kLinkPatience;  // more than a second, the pace of beats
};

// All calls are thread-safe. None waits except the destructor, which waits up to 1 s for clients that are told bye.
class LinkServer {
 public:
  explicit LinkServer(LinkServerOptions options);
  ~LinkServer();
  // For KvServerOptions::take_link. Precondition: the KvServer ends before this object.
  void take(ProvedConnection connection);

  bool came(int rank) const;          // has ever come
  bool within_reach(int rank) const;  // its connection stands, and was not silent for 3 s
  std::string host(int rank) const;   // the name that the host gives itself; "" before it came
  int fd(int rank) const;             // readable when receive() has something to return, or when the rank came
  // Takes the rank's next word. Returns kNothing for a rank that never came. kLost follows after the last word.
  LinkStatus receive(int rank, LinkWord& word);
  void send(int rank, const std::string& word, const std::string& text);
  // Sends a file below the folder as it is now, as words whose texts are "NAME\nOFFSET SIZE\nBYTES". The last word's
  // bytes end at SIZE. Throws IoError where the file cannot be read.
  void send_file(int rank, const std::string& word, const std::string& name);
  // Whether some words have not been acknowledged yet.
  bool has_unheard(int rank) const;
  // Tells the client bye; nothing more is taken from it.
  void close(int rank);
  // What the client said or sent against the protocol, for which the link was lost; "" where it did not.
  std::string fault(int rank) const;
  // Why bytes could not be written, the first time: an IoError, or DiskFull where there was no room. Null: they could.
  std::exception_ptr write_error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct LinkClientOptions {
  std::string address;  // the rendezvous server's
  int port = 0;
  int rank = 0, size = 1;
  std::string run_id, secret;
  std::filesystem::path folder;  // the files lie below it
  std::chrono::milliseconds connect_timeout{30000};
  std::chrono::milliseconds patience = kLinkPatience;
};

// All calls are thread-safe. None waits except the constructor.
class LinkClient {
 public:
  // Connects and proves. Throws CommTimeout naming the address when nobody answers in time, CommError with the reason
  // of a refusal, and UserError when the port is none.
  explicit LinkClient(const LinkClientOptions& options);
  // Ends the connection without a word: what the server did not acknowledge stays on this host alone.
  ~LinkClient();
  int fd() const;  // readable when receive() has something to return
  // Takes the next word. kLost follows after the last word: by bye, by a refusal, or when the patience is over.
  LinkStatus receive(LinkWord& word);
  void send(const std::string& word, const std::string& text);
  // From now on, folders that appear are offered; folders that exist already are not.
  void offer_folders();
  // Sends as send() does, once the server has all that files and folders hold at this moment. May be called once.
  void send_behind_files(const std::string& word, const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlbench::net
