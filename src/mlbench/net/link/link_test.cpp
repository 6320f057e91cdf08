#include "mlbench/net/link/link.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"
#include "mlbench/net/kv/greeting.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"
#include "mlbench/net/test_relay.h"

namespace mlbench::net {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto kLinkTestPatience = 120s;  // the thread sanitizer takes its time

template <typename Condition>
bool in_time(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLinkTestPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

// A run of two ranks, whose files lie here and there.
class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    for (const char* name : {"here", "there"}) fs::create_directory(folder_ / name);
    serve(kLinkPatience);
  }

  void serve(std::chrono::milliseconds patience, int size = 2) {
    patience_ = patience;
    relay_.reset();
    rendezvous_.reset();
    const auto names = [](const std::vector<std::string>& of_all) {
      return [of_all](int rank) {
        std::vector<std::string> own;
        for (const std::string& name : of_all) own.push_back(name + std::to_string(rank));
        return own;
      };
    };
    link_.emplace(LinkServerOptions{.size = size,
                                    .folder = folder_ / "here",
                                    .files = names({"spool/steps-", "spool/events-", "log-"}),
                                    .older_files = names({"older-"}),
                                    .folders = names({"whole-"}),
                                    .patience = patience});
    KvServerOptions options;
    options.size = size;
    options.run_id = "run-1";
    options.secret = "sesame";
    options.take_link = [this](ProvedConnection connection) { link_->take(std::move(connection)); };
    rendezvous_.emplace(options);
    relay_.emplace(rendezvous_->port());
  }

  LinkClientOptions client_of(int rank) const {
    LinkClientOptions options;
    options.address = "127.0.0.1";
    options.port = relay_->port();
    options.rank = rank;
    options.size = 2;
    options.run_id = "run-1";
    options.secret = "sesame";
    options.folder = folder_ / "there";
    options.connect_timeout = kLinkTestPatience;
    options.patience = patience_;
    return options;
  }

  fs::path here(const std::string& name) const { return folder_ / "here" / name; }
  fs::path there(const std::string& name) const {
    fs::create_directories((folder_ / "there" / name).parent_path());
    return folder_ / "there" / name;
  }
  static std::string content(const fs::path& path) { return fs::exists(path) ? read_file(path) : ""; }

  template <typename Receive>
  static std::string next(int fd, Receive receive) {
    const auto deadline = std::chrono::steady_clock::now() + kLinkTestPatience;
    for (;;) {
      LinkWord word;
      const LinkStatus status = receive(word);
      if (status == LinkStatus::kWord) return word.word + " " + word.text;
      if (status == LinkStatus::kLost) return "lost";
      if (!wait_for(fd, POLLIN, deadline)) return "nothing";
    }
  }
  std::string next_here(int rank = 0) {
    return next(link_->fd(rank), [&](LinkWord& word) { return link_->receive(rank, word); });
  }
  static std::string next_there(LinkClient& client) {
    return next(client.fd(), [&](LinkWord& word) { return client.receive(word); });
  }

  TemporaryFolder folder_;
  std::chrono::milliseconds patience_{};
  std::optional<LinkServer> link_;
  std::optional<KvServer> rendezvous_;
  std::optional<test::Relay> relay_;
};

// Writes lines with their numbers, as long as it lives, and says each tenth.
class Writer {
 public:
  Writer(const fs::path& path, LinkClient& client)
      : thread_([this, path, &client] {
          std::ofstream file(path);
          for (int line = 0; !closing_; ++line) {
            file << "line " << line << std::endl;
            if (line % 10 == 0) client.send("line", std::to_string(line));
            lines_ = line + 1;
            std::this_thread::sleep_for(2ms);
          }
        }) {}
  int stop() {
    closing_ = true;
    if (thread_.joinable()) thread_.join();
    return lines_;
  }
  ~Writer() { stop(); }

 private:
  std::atomic<bool> closing_{false};
  std::atomic<int> lines_{0};
  std::thread thread_;
};

std::string lines_up_to(int count) {
  std::string text;
  for (int line = 0; line < count; ++line) text += "line " + std::to_string(line) + "\n";
  return text;
}

// ---- words and files -----------------------------------------------------------------------------------------------

TEST_F(LinkTest, WordsGoBothWaysInTheirOrder) {
  link_->send(1, "early", "before it came");
  LinkClient client(client_of(1));
  EXPECT_EQ(next_there(client), "early before it came");
  EXPECT_TRUE(link_->came(1));
  EXPECT_FALSE(link_->came(0));
  EXPECT_TRUE(link_->within_reach(1));
  EXPECT_FALSE(link_->within_reach(0));
  EXPECT_NE(link_->host(1), "");
  for (int i = 0; i < 100; ++i) client.send("number", std::to_string(i));
  client.send("bytes", std::string("\0\xff\n", 3));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(next_here(1), "number " + std::to_string(i));
  EXPECT_EQ(next_here(1), std::string("bytes \0\xff\n", 9));
  LinkWord none;
  EXPECT_EQ(link_->receive(1, none), LinkStatus::kNothing);
  EXPECT_EQ(link_->receive(0, none), LinkStatus::kNothing);
}

TEST_F(LinkTest, FilesComeWhileTheyGrow) {
  LinkClient client(client_of(0));
  std::ofstream file(there("log-0"));
  file << "first" << std::endl;
  EXPECT_TRUE(in_time([&] { return content(here("log-0")) == "first\n"; }));
  file << "second" << std::endl;
  EXPECT_TRUE(in_time([&] { return content(here("log-0")) == "first\nsecond\n"; }));
  EXPECT_FALSE(fs::exists(here("spool/steps-0"))) << "it is not there either";
}

TEST_F(LinkTest, LargeFilesComeWhole) {
  std::string large;
  large.resize(9'000'000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  write_file_atomically(there("spool/steps-0"), large);
  write_file_atomically(there("log-0"), "small");
  LinkClient client(client_of(0));
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  EXPECT_TRUE(content(here("spool/steps-0")) == large);
  EXPECT_EQ(content(here("log-0")), "small");
}

// An event never comes without the steps before it.
TEST_F(LinkTest, TheOrderOfFilesHolds) {
  LinkClient client(client_of(0));
  std::thread writer([&] {
    std::ofstream steps(there("spool/steps-0")), events(there("spool/events-0"));
    for (int i = 0; i < 2000; ++i) {
      steps << "s" << std::flush;
      events << "e" << std::flush;
      if (i % 50 == 0) std::this_thread::sleep_for(20ms);
    }
    client.send_behind_files("written", "");
  });
  const auto size = [&](const char* name) { return fs::exists(here(name)) ? fs::file_size(here(name)) : 0; };
  while (size("spool/events-0") < 2000) {
    const auto events = size("spool/events-0");
    ASSERT_GE(size("spool/steps-0"), events);
    std::this_thread::sleep_for(2ms);
  }
  writer.join();
  EXPECT_EQ(next_here(), "written ");
  EXPECT_EQ(size("spool/steps-0"), 2000u);
}

TEST_F(LinkTest, EmptyFilesCome) {
  write_file_atomically(there("log-0"), "");
  LinkClient client(client_of(0));
  EXPECT_TRUE(in_time([&] { return fs::exists(here("log-0")); }));
  write_file_atomically(there("spool/steps-0"), "");
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  EXPECT_TRUE(fs::exists(here("spool/steps-0")));
  EXPECT_FALSE(fs::exists(here("spool/events-0"))) << "it is not there either";
  EXPECT_EQ(content(here("log-0")), "");
}

TEST_F(LinkTest, AnEmptyFileGrowsWhereItWas) {
  write_file_atomically(there("log-0"), "");
  LinkClient client(client_of(0));
  EXPECT_TRUE(in_time([&] { return fs::exists(here("log-0")); }));
  std::ofstream(there("log-0"), std::ios::app) << "first\n";
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  EXPECT_EQ(content(here("log-0")), "first\n");
}

TEST_F(LinkTest, AnOlderFileGoesOnBehindWhatItHas) {
  write_file_atomically(here("older-0"), "old\n");
  write_file_atomically(there("older-0"), "old\nnew\n");
  LinkClient client(client_of(0));
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  EXPECT_EQ(content(here("older-0")), "old\nnew\n");
  EXPECT_EQ(link_->write_error(), nullptr);
}

// A client that knows the secret, and follows no rules.
class RawLink {
 public:
  RawLink(int port, int rank, int size = 2) {
    std::string reason;
    const auto deadline = std::chrono::steady_clock::now() + kLinkTestPatience;
    socket_ = connect_to("127.0.0.1", port, deadline, reason);
    const Json hello = {{"op", "hello"},
                        {"id", 0},
                        {"for", "link"},
                        {"nonce", wire::to_bytes(make_nonce())},
                        {"session", wire::to_bytes("raw")},
                        {"run", "run-1"},
                        {"rank", rank},
                        {"size", size},
                        {"pid", 77},
                        {"host", "somewhere"}};
    EXPECT_TRUE(wire::prove(socket_.get(), input_, hello, "sesame", deadline, reason)) << reason;
  }
  void send(const Json& message) {
    wire::send_frame(socket_.get(), wire::encode(message), std::chrono::steady_clock::now() + kLinkTestPatience);
  }
  // Empty at the end of the stream.
  std::optional<Json> receive() {
    for (;;) {
      if (auto message = input_.next(wire::kMaxMessageBytes)) return message;
      if (!wait_for(socket_.get(), POLLIN, std::chrono::steady_clock::now() + kLinkTestPatience)) return std::nullopt;
      try {
        if (!wire::read_into(socket_.get(), input_)) return std::nullopt;
      } catch (const CommError&) {
        return std::nullopt;
      }
    }
  }

 private:
  FileDescriptor socket_;
  wire::FrameReader input_;
};

Json file_message(const std::string& name, int64_t offset, std::string_view bytes) {
  return {{"op", "file"}, {"name", name}, {"offset", offset}, {"bytes", wire::to_bytes(bytes)}};
}

// ---- folders that come whole, and files that go the other way ------------------------------------------------------

std::string bytes_of(size_t size, int salt) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 7 + static_cast<size_t>(salt)) % 251);
  return bytes;
}

class LinkFolders : public LinkTest {
 protected:
  // Under another name first, as checkpoints are.
  void make_there(const std::string& name, const std::map<std::string, std::string>& files) const {
    const fs::path made = there("whole-0/.made");
    fs::create_directories(made / "deeper");
    for (const auto& [file, text] : files) write_file_atomically(made / file, text);
    replace_directory(made, there("whole-0/" + name));
  }
  std::set<std::string> names_here() const {
    std::set<std::string> names;
    if (!fs::exists(here("whole-0"))) return names;
    for (const auto& entry : fs::directory_iterator(here("whole-0"))) names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(LinkFolders, ComeOnceAndWhole) {
  make_there("older", {{"a", "of an earlier time"}});
  LinkClient client(client_of(0));
  client.send("hello", "");
  EXPECT_EQ(next_here(), "hello ");  // it was welcomed
  client.offer_folders();
  make_there("step-1", {{"a", ""}, {"b", bytes_of(3'000'000, 1)}, {"c", ""}, {"deeper/d", "d"}});
  fs::create_directories(there("whole-0/.unfinished"));
  write_file_atomically(there("whole-0/.unfinished/a"), "half");
  EXPECT_TRUE(in_time([&] { return fs::exists(here("whole-0/step-1")); }));
  EXPECT_TRUE(content(here("whole-0/step-1/b")) == bytes_of(3'000'000, 1));
  EXPECT_TRUE(fs::exists(here("whole-0/step-1/a")));
  EXPECT_TRUE(fs::exists(here("whole-0/step-1/c")));
  EXPECT_EQ(content(here("whole-0/step-1/deeper/d")), "d");
  make_there("step-1", {{"a", "again"}});  // in the place of the other
  make_there("step-2", {{"a", "second"}});
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  EXPECT_EQ(names_here(), (std::set<std::string>{"step-1", "step-2"}));
  EXPECT_EQ(content(here("whole-0/step-1/a")), "again");
  EXPECT_FALSE(fs::exists(here("whole-0/step-1/b")));
  EXPECT_EQ(content(here("whole-0/step-2/a")), "second");
}

TEST_F(LinkFolders, FilesGrowBesideThem) {
  LinkClient client(client_of(0));
  client.offer_folders();
  make_there("step-1", {{"a", bytes_of(30'000'000, 1)}});
  write_file_atomically(there("log-0"), "line\n");
  EXPECT_TRUE(in_time([&] { return content(here("log-0")) == "line\n"; }));
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  EXPECT_TRUE(content(here("whole-0/step-1/a")) == bytes_of(30'000'000, 1));
}

TEST_F(LinkFolders, ACutOnTheWayLeavesNoHalf) {
  LinkClient client(client_of(0));
  client.offer_folders();
  std::atomic<bool> over = false;
  std::thread watcher([&] {
    while (!over) {
      if (fs::exists(here("whole-0/step-1"))) {
        EXPECT_EQ(fs::file_size(here("whole-0/step-1/a")), 20'000'000u);
        EXPECT_TRUE(fs::exists(here("whole-0/step-1/b")));
      }
      std::this_thread::sleep_for(1ms);
    }
  });
  make_there("step-1", {{"a", bytes_of(20'000'000, 3)}, {"b", "b"}});
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(60ms);
    relay_->cut();
    std::this_thread::sleep_for(30ms);
    relay_->heal();
  }
  client.send_behind_files("all", "there");
  EXPECT_EQ(next_here(), "all there");
  over = true;
  watcher.join();
  EXPECT_TRUE(content(here("whole-0/step-1/a")) == bytes_of(20'000'000, 3));
  EXPECT_EQ(names_here(), (std::set<std::string>{"step-1"}));
  EXPECT_GE(relay_->connections(), 2);
}

TEST_F(LinkFolders, OneThatIsCutOffForGoodLeavesNothing) {
  serve(2s);
  RawLink client(rendezvous_->port(), 0);
  client.send({{"op", "resume"}, {"heard", 0}});
  ASSERT_TRUE(client.receive());
  client.send({{"op", "folder"},
               {"name", "whole-0/step-1"},
               {"number", 1},
               {"files", Json::array({{{"name", "a"}, {"bytes", 10}}})}});
  client.send(file_message("whole-0/step-1", 0, "half"));
  EXPECT_TRUE(in_time([&] { return names_here() == std::set<std::string>{".tmp-step-1"}; }));
  EXPECT_EQ(next_here(), "lost");  // it says nothing any more
  EXPECT_TRUE(in_time([&] { return names_here().empty(); }));
}

TEST_F(LinkFolders, OthersThanItsOwnAreRefused) {
  const auto folder = [](const std::string& name, const std::string& file, int64_t bytes) {
    return Json{
        {"op", "folder"}, {"name", name}, {"number", 1}, {"files", Json::array({{{"name", file}, {"bytes", bytes}}})}};
  };
  const std::vector<Json> bad = {
      folder("whole-1/step-1", "a", 1),       // another rank's
      folder("whole-0", "a", 1),              // not in it
      folder("whole-0/..", "a", 1),           //
      folder("whole-0/.tmp-step-1", "a", 1),  //
      folder("whole-0/a/b", "a", 1),          //
      folder("whole-0/step-1", "../a", 1),    //
      folder("whole-0/step-1", "/tmp/a", 1),  //
      folder("whole-0/step-1", "", 1),        //
      folder("whole-0/step-1", "a", -1),      //
      folder("whole-0/step-1", std::string("a\0b", 3), 1),
      folder(std::string("whole-0/a\0b", 11), "a", 1),
      folder("whole-0/step-1", std::string(300, 'a'), 1),
      folder("whole-0/" + std::string(300, 'a'), "a", 1),
      folder("whole-0/step-1", "a\nb", 1),
      {{"op", "folder"},
       {"name", "whole-0/step-1"},
       {"number", 1},
       {"files", Json::array({{{"name", "a"}, {"bytes", 1}}, {{"name", "a/b"}, {"bytes", 1}}})}},
      {{"op", "folder"},
       {"name", "whole-0/step-1"},
       {"number", 1},
       {"files", Json::array({{{"name", "a"}, {"bytes", 1}}, {{"name", "a"}, {"bytes", 1}}})}},
      {{"op", "folder"}, {"name", "whole-0/step-1"}, {"number", 1}},
      {{"op", "whole"}, {"name", "whole-0/step-1"}}};
  for (const Json& message : bad) {
    serve(kLinkPatience);
    RawLink client(rendezvous_->port(), 0);
    client.send({{"op", "resume"}, {"heard", 0}});
    ASSERT_TRUE(client.receive());
    client.send(message);
    client.send(file_message("whole-0/step-1", 0, "x"));
    EXPECT_EQ(next_here(), "lost") << message;
    EXPECT_NE(link_->fault(0), "") << message;
    EXPECT_EQ(link_->write_error(), nullptr) << "the disk is not to blame";
  }
  serve(kLinkPatience);
  RawLink client(rendezvous_->port(), 0);
  client.send({{"op", "resume"}, {"heard", 0}});
  client.send(folder("whole-0/step-1", "a", 2));
  client.send(file_message("whole-0/step-1", 0, "more than two"));
  EXPECT_EQ(next_here(), "lost");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(LinkFolders, AFileGoesTheOtherWayInPieces) {
  const std::string large = bytes_of(5'000'000, 9);
  write_file_atomically(here("large"), large);
  write_file_atomically(here("empty"), "");
  link_->send_file(0, "put", "large");
  link_->send_file(0, "put", "empty");
  link_->send(0, "behind", "");
  EXPECT_THROW(link_->send_file(0, "put", "absent"), IoError);
  LinkClient client(client_of(0));
  std::string came;
  for (int cuts = 0;;) {
    const std::string said = next_there(client);
    if (said == "put empty\n0 0\n") break;
    ASSERT_TRUE(said.starts_with("put large\n" + std::to_string(came.size()) + " 5000000\n")) << said.substr(0, 40);
    came += said.substr(said.find('\n', said.find('\n') + 1) + 1);
    if (came.size() < 1'000'000 || cuts++ > 0) continue;
    relay_->cut();
    EXPECT_TRUE(in_time([&] { return !link_->within_reach(0); }));
    relay_->heal();
  }
  EXPECT_TRUE(came == large);
  EXPECT_EQ(next_there(client), "behind ");
  EXPECT_TRUE(in_time([&] { return !link_->has_unheard(0); }));
}

// ---- cuts ----------------------------------------------------------------------------------------------------------

class LinkCut : public LinkTest {
 protected:
  void expect_no_gap(void (test::Relay::*cut)(), std::chrono::milliseconds length) {
    LinkClient client(client_of(0));
    Writer writer(there("log-0"), client);
    EXPECT_EQ(next_here(), "line 0");
    EXPECT_TRUE(in_time([&] { return content(here("log-0")).size() > 100; }));
    ((*relay_).*cut)();
    EXPECT_TRUE(in_time([&] { return !link_->within_reach(0); }));
    link_->send(0, "sent", "while it was cut");
    std::this_thread::sleep_for(length);
    relay_->heal();
    EXPECT_EQ(next_there(client), "sent while it was cut");
    const size_t before = content(here("log-0")).size();
    EXPECT_TRUE(in_time([&] { return content(here("log-0")).size() > before + 100; })) << "it goes on";
    const int lines = writer.stop();
    client.send_behind_files("all", std::to_string(lines));
    for (int line = 10; line < lines; line += 10) ASSERT_EQ(next_here(), "line " + std::to_string(line));
    EXPECT_EQ(next_here(), "all " + std::to_string(lines));
    EXPECT_EQ(content(here("log-0")), lines_up_to(lines));
    EXPECT_GE(relay_->connections(), 2);
  }
};

TEST_F(LinkCut, ThreeSecondsLeaveNoGapAndNothingTwice) { expect_no_gap(&test::Relay::cut, 3s); }

// Until it is noticed, 3 s, and some more.
TEST_F(LinkCut, SilenceThatEndsLeavesNoGapAndNothingTwice) { expect_no_gap(&test::Relay::hold, 2s); }

TEST_F(LinkCut, ManyCutsLeaveNoGapAndNothingTwice) {
  LinkClient client(client_of(0));
  Writer writer(there("log-0"), client);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(70ms);
    relay_->cut();
    std::this_thread::sleep_for(30ms);
    relay_->heal();
  }
  const int lines = writer.stop();
  client.send_behind_files("all", "");
  for (int line = 0; line < lines; line += 10) ASSERT_EQ(next_here(), "line " + std::to_string(line));
  EXPECT_EQ(next_here(), "all ");
  EXPECT_EQ(content(here("log-0")), lines_up_to(lines));
}

TEST_F(LinkCut, ALongerOneLosesTheLinkOnBothSides) {
  for (const auto cut : {&test::Relay::cut, &test::Relay::hold}) {
    serve(2s);
    LinkClient client(client_of(0));
    client.send("last", "word");
    EXPECT_TRUE(in_time([&] { return link_->came(0); }));
    EXPECT_TRUE(wait_for(link_->fd(0), POLLIN, std::chrono::steady_clock::now() + kLinkTestPatience));
    std::this_thread::sleep_for(200ms);
    ((*relay_).*cut)();
    EXPECT_EQ(next_here(), "last word") << "what came before is not lost";
    EXPECT_EQ(next_here(), "lost");
    EXPECT_EQ(next_there(client), "lost");
    relay_->heal();
    LinkClient late(client_of(0));
    EXPECT_EQ(next_there(late), "lost") << "it is given up for good";
  }
}

TEST_F(LinkCut, AServerThatEndsIsLost) {
  LinkClient client(client_of(0));
  EXPECT_TRUE(in_time([&] { return link_->came(0); }));
  relay_->hold();  // not even bye
  rendezvous_.reset();
  link_.reset();
  relay_.reset();
  EXPECT_EQ(next_there(client), "lost");
}

TEST_F(LinkTest, ByeIsHeardAtOnce) {
  serve(10min);
  LinkClient client(client_of(0));
  client.send("hello", "");
  EXPECT_EQ(next_here(), "hello ");
  link_->send(0, "last", "word");
  link_->close(0);
  EXPECT_EQ(next_there(client), "last word");
  EXPECT_EQ(next_there(client), "lost");
}

// ---- disks ---------------------------------------------------------------------------------------------------------

// A file system of its own for a folder, in the mount namespace of this test.
class SmallMount {
 public:
  SmallMount(const fs::path& path, const std::string& size) : path_(path) {
    mounted_ = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               mount("none", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallMount() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallMount(const SmallMount&) = delete;
  SmallMount& operator=(const SmallMount&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_;
};

TEST_F(LinkTest, AFullDiskIsToldAndLosesNothing) {
  const SmallMount disk(folder_ / "here", "1m");
  if (!disk.mounted()) GTEST_SKIP() << "missing capability: mounting a file system";
  serve(kLinkPatience);  // its thread sees the mount
  write_file_atomically(here("filler"), std::string(700'000, 'x'));
  std::string large(900'000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  write_file_atomically(there("log-0"), large);
  LinkClient client(client_of(0));
  client.send_behind_files("all", "there");
  EXPECT_TRUE(in_time([&] { return link_->write_error() != nullptr; }));
  EXPECT_THAT([&] { std::rethrow_exception(link_->write_error()); },
              ThrowsMessage<DiskFull>(
                  AllOf(HasSubstr("cannot write " + here("log-0").string()), HasSubstr("No space left on device"))));
  LinkWord none;
  EXPECT_EQ(link_->receive(0, none), LinkStatus::kNothing) << "nothing is acknowledged that is not there";
  fs::remove(here("filler"));
  EXPECT_EQ(next_here(), "all there");
  EXPECT_TRUE(content(here("log-0")) == large);
}

TEST_F(LinkTest, AFileThatIsThereAlreadyIsNotTouched) {
  write_file_atomically(here("log-0"), "of an earlier time");
  write_file_atomically(there("log-0"), "new");
  LinkClient client(client_of(0));
  EXPECT_TRUE(in_time([&] { return link_->write_error() != nullptr; }));
  EXPECT_THAT([&] { std::rethrow_exception(link_->write_error()); },
              ThrowsMessage<IoError>(HasSubstr("cannot create " + here("log-0").string())));
  EXPECT_EQ(content(here("log-0")), "of an earlier time");
}

// ---- whom it does not serve ----------------------------------------------------------------------------------------

TEST_F(LinkTest, ARankHasOneLink) {
  LinkClient first(client_of(0));
  first.send("first", "");
  EXPECT_EQ(next_here(), "first ");
  LinkClient second(client_of(0));
  second.send("second", "");
  EXPECT_EQ(next_there(second), "lost");
  first.send("again", "");
  EXPECT_EQ(next_here(), "again ");
}

TEST_F(LinkTest, RefusalsSayWhy) {
  LinkClientOptions wrong = client_of(0);
  wrong.secret = "guessed";
  EXPECT_THAT([&] { LinkClient client(wrong); },
              ThrowsMessage<CommError>(AllOf(HasSubstr("refused a link"), HasSubstr("wrong secret"))));
  wrong = client_of(0);
  wrong.port = 0;
  EXPECT_THAT([&] { LinkClient client(wrong); }, ThrowsMessage<UserError>(HasSubstr("1 to 65535")));
  wrong.port = free_port();
  wrong.connect_timeout = 200ms;
  EXPECT_THAT([&] { LinkClient client(wrong); },
              ThrowsMessage<CommTimeout>(
                  AllOf(HasSubstr("rank 0: no link to the supervisor at 127.0.0.1:"), HasSubstr("within 0.2 s"))));
  KvServerOptions local;
  local.size = 2;
  local.run_id = "run-1";
  local.secret = "sesame";
  const KvServer without(local);
  wrong = client_of(0);
  wrong.port = without.port();
  EXPECT_THAT([&] { LinkClient client(wrong); }, ThrowsMessage<CommError>(HasSubstr("nobody takes a link")));
}

TEST_F(LinkTest, OtherFilesThanItsOwnAreRefused) {
  const std::vector<Json> bad = {
      file_message("../there/escaped", 0, "x"),
      file_message("/tmp/escaped", 0, "x"),
      file_message("log-1", 0, "x"),  // another rank's
      file_message("log-0", -1, "x"),
      {{"op", "dance"}},
      {{"op", "say"}, {"sequence", 7}, {"word", wire::to_bytes("a")}, {"text", wire::to_bytes("b")}}};
  for (const Json& message : bad) {
    serve(kLinkPatience);
    RawLink client(rendezvous_->port(), 0);
    client.send({{"op", "resume"}, {"heard", 0}});
    ASSERT_TRUE(client.receive());
    client.send(message);
    EXPECT_EQ(next_here(), "lost") << message;
    while (client.receive()) {
    }
    EXPECT_FALSE(fs::exists(folder_ / "there/escaped"));
    EXPECT_FALSE(fs::exists(here("log-1")));
  }
}

TEST_F(LinkTest, RangesThatComeTwiceAreWrittenOnce) {
  RawLink client(rendezvous_->port(), 0);
  client.send({{"op", "resume"}, {"heard", 0}});
  const auto welcome = client.receive();
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->at("files").size(), 4u);
  EXPECT_EQ(welcome->at("files")[2].at("name"), "log-0");
  const auto answer = [&](const Json& message) {
    client.send(message);
    for (;;) {
      const auto said = client.receive();
      if (!said) return std::string("closed");
      if (said->at("op") != "beat") return said->at("op").get<std::string>() + " " + said->at("offset").dump();
    }
  };
  EXPECT_EQ(answer(file_message("log-0", 0, "abcd")), "kept 4");
  EXPECT_EQ(answer(file_message("log-0", 0, "abcd")), "kept 4");
  EXPECT_EQ(answer(file_message("log-0", 2, "cdef")), "kept 6");
  EXPECT_EQ(answer(file_message("log-0", 9, "x")), "later 6") << "a gap";
  EXPECT_EQ(answer(file_message("log-0", 6, "gh")), "kept 8");
  EXPECT_EQ(content(here("log-0")), "abcdefgh");
}

// ---- a client that knows the secret, and is broken or hostile -------------------------------------------------------

// In the place of each member of a good message.
std::vector<Json> odd_values() {
  Json deep = 1;
  for (int i = 0; i < 80; ++i) deep = Json::array({deep});
  return {nullptr,
          true,
          -1,
          INT64_MAX,
          UINT64_MAX,
          1.5,
          "",
          "word",
          std::string("a\0b", 3),
          "../../evil",
          std::string(5000, 'x'),
          wire::to_bytes(""),
          wire::to_bytes(std::string(300'000, 'x')),
          Json::array(),
          Json::array({Json::array({1}), "x"}),
          Json::object(),
          deep};
}

bool is_of_one_kind(const Json& one, const Json& other) {
  return one.type() == other.type() || (one.is_number_integer() && other.is_number_integer());
}

// Each message of the protocol with each member left out, or of another kind, size, count or depth: it is that rank's
// fault or is taken, the server lives, and nothing is written but what the names of the rank's files allow.
TEST_F(LinkTest, WhateverARankSaysIsItsOwnFault) {
  const auto messages_of = [](int rank) {
    const std::string number = std::to_string(rank);
    const Json folder = {{"op", "folder"},
                         {"name", "whole-" + number + "/step-1"},
                         {"number", 1},
                         {"files", Json::array({{{"name", "a"}, {"bytes", 4}}})}};
    return std::vector<Json>{
        {{"op", "say"}, {"sequence", 1}, {"word", wire::to_bytes("word")}, {"text", wire::to_bytes("text")}},
        {{"op", "heard"}, {"sequence", 0}},
        file_message("log-" + number, 0, "line"),
        folder,
        {{"op", "beat"}}};
  };
  struct Case {
    Json message;
    bool is_wrong;  // else it may be taken
  };
  std::vector<Case> cases;
  for (size_t which = 0; which < messages_of(0).size(); ++which) {
    const auto good = [&] { return messages_of(static_cast<int>(cases.size())).at(which); };
    cases.push_back({good(), false});
    const Json original = messages_of(0).at(which);
    for (const auto& [key, value] : original.items()) {
      Json message = good();
      message.erase(key);
      cases.push_back({message, true});
      for (const Json& odd : odd_values()) {
        message = good();
        message[key] = odd;
        cases.push_back({message, !is_of_one_kind(value, odd) || odd.dump().size() > 10'000});
      }
    }
  }
  const int ranks = static_cast<int>(cases.size()) + 1;
  serve(kLinkPatience, ranks);
  LinkClientOptions options = client_of(ranks - 1);
  options.size = ranks;
  LinkClient honest(options);
  for (int rank = 0; rank + 1 < ranks; ++rank) {
    const Case& one = cases[static_cast<size_t>(rank)];
    RawLink client(rendezvous_->port(), rank, ranks);
    client.send({{"op", "resume"}, {"heard", 0}});
    ASSERT_TRUE(client.receive());
    try {
      client.send(one.message);
      client.send({{"op", "beat"}});
    } catch (const CommError&) {
      // The client was sent away already.
    }
    if (!one.is_wrong) continue;
    EXPECT_TRUE(in_time([&] { return !link_->fault(rank).empty(); })) << one.message.dump().substr(0, 200);
    EXPECT_LT(link_->fault(rank).size(), 5000u);
  }
  honest.send("still", "here");
  EXPECT_EQ(next_here(ranks - 1), "still here");
  link_->send(ranks - 1, "and", "there");
  EXPECT_EQ(next_there(honest), "and there");
  EXPECT_EQ(link_->write_error(), nullptr) << "the disk is not to blame";
  EXPECT_FALSE(fs::exists(folder_ / "evil"));
}

TEST_F(LinkTest, AFloodOfWordsIsAFault) {
  RawLink client(rendezvous_->port(), 0);
  client.send({{"op", "resume"}, {"heard", 0}});
  try {
    for (int sequence = 1; sequence <= 100'000 && link_->fault(0).empty(); ++sequence) {
      client.send(
          {{"op", "say"}, {"sequence", sequence}, {"word", wire::to_bytes("usage")}, {"text", wire::to_bytes("0 0")}});
    }
  } catch (const CommError&) {
    // The client was sent away.
  }
  EXPECT_TRUE(in_time([&] { return link_->fault(0) == "it says more than anybody reads"; })) << link_->fault(0);
  LinkClient other(client_of(1));
  other.send("still", "here");
  EXPECT_EQ(next_here(1), "still here");
}

}  // namespace
}  // namespace mlbench::net
